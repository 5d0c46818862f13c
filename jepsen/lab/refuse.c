/* Cuts a process off from others on the loopback, by LD_PRELOAD: without root, and without a proxy.
 *
 * QUORATE_REFUSE names a file of a page, which both sides map: the ports of those that the process
 * cannot reach.  Connections to them fail, and those that there are break with the next byte that is
 * sent or comes.  So it is like a firewall that rejects; one that drops takes network.py.  Only who
 * dials knows the port: to cut two off from each other, each must have the other's in its page.
 *
 * cc -O2 -shared -fPIC -o refuse.so refuse.c -ldl
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared_page.h"

#define PORTS_MAX 254

/* The fields' order is refusing.py's. */
struct control {
    volatile int64_t count;   /* how many ports are out of reach */
    volatile int64_t refused; /* how often one was */
    volatile int64_t ports[PORTS_MAX];
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("QUORATE_REFUSE");
    if (path != NULL)
        control = shared_page(open(path, O_RDWR | O_CLOEXEC), sizeof *control);
}

static int is_out_of_reach(const struct sockaddr *address, socklen_t length) {
    struct sockaddr_in there;
    if (length < sizeof there || address->sa_family != AF_INET)
        return 0;
    there = *(const struct sockaddr_in *)address;
    if (there.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
        return 0;
    for (int64_t at = 0; at < control->count && at < PORTS_MAX; at++)
        if (control->ports[at] == ntohs(there.sin_port)) {
            __sync_add_and_fetch(&control->refused, 1);
            return 1;
        }
    return 0;
}

/* Breaks a connection to somebody out of reach; the other side sees its end. */
static int is_broken(int fd) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    if (control == NULL || control->count == 0)
        return 0;
    int before = errno;
    int cut = getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
              is_out_of_reach((struct sockaddr *)&peer, length);
    if (cut)
        shutdown(fd, SHUT_RDWR);
    errno = cut ? ECONNRESET : before;
    return cut;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (control != NULL && control->count != 0 && is_out_of_reach(address, length)) {
        errno = EHOSTUNREACH;
        return -1;
    }
    return real(fd, address, length);
}

/* A function on a descriptor that may be a connection: it fails if that is cut. */
#define UNLESS_BROKEN(name, parameters, arguments)      \
    ssize_t name parameters {                           \
        static ssize_t(*real) parameters;               \
        if (real == NULL)                               \
            *(void **)&real = dlsym(RTLD_NEXT, #name);  \
        return is_broken(fd) ? -1 : real arguments;     \
    }

UNLESS_BROKEN(send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
UNLESS_BROKEN(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
UNLESS_BROKEN(write, (int fd, const void *data, size_t size), (fd, data, size))
UNLESS_BROKEN(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
UNLESS_BROKEN(recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
UNLESS_BROKEN(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
UNLESS_BROKEN(read, (int fd, void *data, size_t size), (fd, data, size))
UNLESS_BROKEN(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
