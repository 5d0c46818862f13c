/* flood PORT CONNECTIONS DEPTH REQUEST_FILE ERROR_OFFSET ERROR_STRIDE ERROR_COUNT WARMUP_S SECONDS
 *
 * Sends one prepared request, framed as in Kafka's protocol, over CONNECTIONS to 127.0.0.1 again and
 * again, up to DEPTH of them unanswered on each, and measures answers and the time to each.  An answer has
 * ERROR_COUNT error codes, the first at ERROR_OFFSET from its start (length included); all must be 0. */
#include "common.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEPTH_MAX 64
#define BURST_BYTES_MAX 262144
#define BUFFER_BYTES 65536
#define LATENCIES_MAX 20000000
#define EVENTS_MAX 256

struct connection {
    int fd, unanswered;
    size_t burst_bytes, burst_sent; /* of the requests being sent now */
    size_t received;
    unsigned long first, last; /* the unanswered requests, in sent_at */
    double sent_at[DEPTH_MAX];
    unsigned char buffer[BUFFER_BYTES];
};

static char *burst; /* as many copies of the request as are worth one send */
static size_t request_bytes, burst_requests_max, error_offset, error_stride, error_count;
static int depth;
static struct latencies latencies;
static long answers;

static void read_request(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("cannot read %s", path);
    request_bytes = (size_t)ftell(file);
    rewind(file);
    size_t fitting = BURST_BYTES_MAX / request_bytes;
    burst_requests_max = fitting < 1 ? 1 : fitting < (size_t)depth ? fitting : (size_t)depth;
    burst = allocate(burst_requests_max, request_bytes);
    if (fread(burst, 1, request_bytes, file) != request_bytes) fail("cannot read %s", path);
    fclose(file);
    for (size_t i = 1; i < burst_requests_max; i++)
        memcpy(burst + i * request_bytes, burst, request_bytes);
}

static void connect_to(struct connection *c, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

static void check_answer(const unsigned char *answer, size_t bytes) {
    for (size_t i = 0; i < error_count; i++) {
        size_t at = error_offset + i * error_stride;
        if (at + 2 > bytes) fail("an answer of %zu bytes is too short", bytes);
        int code = answer[at] << 8 | answer[at + 1];
        if (code) fail("the broker answered with error %d", code);
    }
}

/* Takes whole answers from the buffer; returns with what is left of the last at its start. */
static void take_answers(struct connection *c) {
    size_t position = 0;
    double now = now_s();
    while (c->received - position >= 4) {
        uint32_t length;
        memcpy(&length, c->buffer + position, 4);
        size_t bytes = (size_t)ntohl(length) + 4;
        if (bytes > BUFFER_BYTES) fail("an answer of %zu bytes is too long", bytes);
        if (c->received - position < bytes) break;
        check_answer(c->buffer + position, bytes);
        position += bytes;
        answers++;
        c->unanswered--;
        latencies_add(&latencies, now - c->sent_at[c->first++ % DEPTH_MAX]);
    }
    c->received -= position;
    memmove(c->buffer, c->buffer + position, c->received);
}

static void receive(struct connection *c) {
    for (;;) {
        size_t room = BUFFER_BYTES - c->received;
        ssize_t got = recv(c->fd, c->buffer + c->received, room, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0) fail("recv: %s", strerror(errno));
        if (got == 0) fail("the broker closed the connection");
        c->received += (size_t)got;
        take_answers(c);
        if ((size_t)got < room) return;
    }
}

static void send_more(struct connection *c) {
    for (;;) {
        if (c->burst_sent == c->burst_bytes) {
            size_t room = (size_t)(depth - c->unanswered);
            size_t count = room < burst_requests_max ? room : burst_requests_max;
            if (!count) return;
            double now = now_s();
            for (size_t i = 0; i < count; i++) c->sent_at[c->last++ % DEPTH_MAX] = now;
            c->unanswered += (int)count;
            c->burst_bytes = count * request_bytes;
            c->burst_sent = 0;
        }
        size_t left = c->burst_bytes - c->burst_sent;
        ssize_t sent = send(c->fd, burst + c->burst_sent, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) fail("send: %s", strerror(errno));
        c->burst_sent += (size_t)sent;
    }
}

static void serve_until(int epoll, struct connection *connections, double deadline) {
    struct epoll_event events[EVENTS_MAX];
    while (now_s() < deadline) {
        int count = epoll_wait(epoll, events, EVENTS_MAX, 100);
        for (int i = 0; i < count; i++) {
            struct connection *c = &connections[events[i].data.u32];
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) receive(c);
            send_more(c);
        }
    }
}

int main(int count, char **words) {
    if (count != 10)
        fail("flood PORT CONNECTIONS DEPTH REQUEST_FILE ERROR_OFFSET ERROR_STRIDE ERROR_COUNT"
             " WARMUP_S SECONDS");
    int port = atoi(words[1]), connection_count = atoi(words[2]);
    depth = atoi(words[3]);
    if (depth < 1 || depth > DEPTH_MAX) fail("DEPTH must be 1 to %d", DEPTH_MAX);
    read_request(words[4]);
    error_offset = (size_t)atol(words[5]), error_stride = (size_t)atol(words[6]);
    error_count = (size_t)atol(words[7]);
    latencies = latencies_new(LATENCIES_MAX);

    int epoll = epoll_create1(0);
    struct connection *connections = allocate((size_t)connection_count, sizeof *connections);
    for (int i = 0; i < connection_count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = (uint32_t)i};
        connect_to(&connections[i], port);
        epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].fd, &event);
    }

    double start = now_s();
    serve_until(epoll, connections, start + atof(words[8]));
    emit("begin");
    answers = 0, latencies.count = 0;
    double begin = now_s(), cpu = cpu_s();
    serve_until(epoll, connections, begin + atof(words[9]));
    double seconds = now_s() - begin, cpu_used = cpu_s() - cpu;
    emit("stop");
    printf("{\"event\": \"result\", \"requests\": %ld, \"seconds\": %.6f, \"requests_per_s\": %.1f"
           ", \"bytes_per_s\": %.1f, \"client_cpu_s\": %.4f, \"failed\": 0",
           answers, seconds, (double)answers / seconds,
           (double)answers * (double)request_bytes / seconds, cpu_used);
    latencies_print(&latencies);
    puts("}");
    return 0;
}
