/* latency sync|e2e BROKERS TOPIC VALUE_BYTES RATE WARMUP_S SECONDS [NAME=VALUE...]
 *
 * sync: one record at a time, from handing it to the producer to its acknowledgement (RATE is ignored).
 * e2e:  RATE records/s, from handing one to the producer to having it from a consumer in this process;
 *       also the acknowledgements. */
#define QUORATE_RDKAFKA
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define SPIN_S 50e-6 /* sleep until so long before a record is due, then spin: timers are late */
#define DRAIN_S 2.0

struct stamp {
    double sent; /* now_s() */
    int measured;
};

static struct latencies ack_latencies, arrival_latencies;
static atomic_long acked, failed, arrived;
static atomic_int stopping;
static const char *brokers, *topic_name;

static struct stamp stamp_of(const rd_kafka_message_t *message) {
    struct stamp stamp;
    memcpy(&stamp, message->payload, sizeof stamp);
    return stamp;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    double now = now_s();
    if (message->err) {
        fprintf(stderr, "not delivered: %s\n", rd_kafka_err2str(message->err));
        failed++;
    } else if (stamp_of(message).measured) {
        latencies_add(&ack_latencies, now - stamp_of(message).sent);
    }
    acked++;
}

static void *poll_for_deliveries(void *rk) {
    while (!stopping) rd_kafka_poll(rk, 50);
    return NULL;
}

static void *receive(void *ready) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    set(conf, "fetch.wait.max.ms", "500");
    set(conf, "fetch.min.bytes", "1");
    rd_kafka_t *rk = client_new(RD_KAFKA_CONSUMER, conf);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_topic_t *topic = topic_known(rk, topic_name);
    if (rd_kafka_consume_start_queue(topic, 0, RD_KAFKA_OFFSET_END, queue)) fail("cannot consume");
    atomic_store((atomic_int *)ready, 1);
    while (!stopping) {
        rd_kafka_message_t *message = rd_kafka_consume_queue(queue, 100);
        if (!message) continue;
        if (!message->err && stamp_of(message).measured) {
            latencies_add(&arrival_latencies, now_s() - stamp_of(message).sent);
            arrived++;
        }
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static void send_now(rd_kafka_topic_t *topic, char *value, size_t value_bytes, int measured) {
    struct stamp stamp = {now_s(), measured};
    memcpy(value, &stamp, sizeof stamp);
    if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, value, value_bytes, NULL, 0, NULL))
        fail("%s", rd_kafka_err2str(rd_kafka_last_error()));
}

static long send_one_by_one(rd_kafka_t *rk, rd_kafka_topic_t *topic, char *value, size_t value_bytes,
                            double seconds, int measured) {
    long sent = 0;
    for (double start = now_s(); now_s() - start < seconds; sent++) {
        long before = acked;
        send_now(topic, value, value_bytes, measured);
        while (acked == before) rd_kafka_poll(rk, 1000);
    }
    return sent;
}

static void sleep_until(double due) {
    double wait = due - now_s();
    if (wait > 2 * SPIN_S) {
        struct timespec time = {(time_t)(wait - SPIN_S), 0};
        time.tv_nsec = (long)((wait - SPIN_S - (double)time.tv_sec) * 1e9);
        nanosleep(&time, NULL);
    }
    while (now_s() < due) continue;
}

static long send_at_rate(rd_kafka_topic_t *topic, char *value, size_t value_bytes, double rate,
                         double seconds, int measured) {
    long sent = 0;
    double start = now_s();
    for (; (double)sent < rate * seconds; sent++) {
        sleep_until(start + (double)sent / rate);
        send_now(topic, value, value_bytes, measured);
    }
    return sent;
}

static void print_result(struct latencies *l, long sent, double seconds, double cpu, int both) {
    printf("{\"event\": \"result\", \"records\": %ld, \"seconds\": %.6f, \"records_per_s\": %.1f"
           ", \"client_cpu_s\": %.4f, \"failed\": %ld",
           sent, seconds, (double)sent / seconds, cpu, (long)failed);
    latencies_print(l);
    if (both) {
        qsort(ack_latencies.seconds, ack_latencies.count, sizeof(double), compare_doubles);
        printf(", \"ack_p50_ms\": %.6f, \"ack_p99_ms\": %.6f",
               latencies_quantile_ms(&ack_latencies, 0.5),
               latencies_quantile_ms(&ack_latencies, 0.99));
    }
    puts("}");
    fflush(stdout);
}

int main(int count, char **words) {
    if (count < 8) fail("latency sync|e2e BROKERS TOPIC VALUE_BYTES RATE WARMUP_S SECONDS ...");
    int e2e = !strcmp(words[1], "e2e");
    brokers = words[2], topic_name = words[3];
    size_t value_bytes = (size_t)atol(words[4]);
    double rate = atof(words[5]), warmup_s = atof(words[6]), seconds = atof(words[7]);
    if (value_bytes < sizeof(struct stamp)) fail("VALUE_BYTES must be at least %zu", sizeof(struct stamp));

    size_t capacity = (size_t)((e2e ? rate : 100000) * (seconds + 1));
    ack_latencies = latencies_new(capacity), arrival_latencies = latencies_new(capacity);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    set(conf, "linger.ms", "0");
    set_all(conf, count - 8, words + 8);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = client_new(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = topic_known(rk, topic_name);
    char *value = allocate(1, value_bytes);

    if (!e2e) {
        send_one_by_one(rk, topic, value, value_bytes, warmup_s, 0);
        emit("begin");
        double begin = now_s(), cpu = cpu_s();
        long sent = send_one_by_one(rk, topic, value, value_bytes, seconds, 1);
        double elapsed = now_s() - begin, cpu_used = cpu_s() - cpu;
        emit("stop");
        print_result(&ack_latencies, sent, elapsed, cpu_used, 0);
    } else {
        pthread_t poller, receiver;
        atomic_int ready = 0;
        pthread_create(&receiver, NULL, receive, &ready);
        pthread_create(&poller, NULL, poll_for_deliveries, rk);
        while (!ready) usleep(1000);
        send_at_rate(topic, value, value_bytes, rate, warmup_s, 0);
        emit("begin");
        double begin = now_s(), cpu = cpu_s();
        long sent = send_at_rate(topic, value, value_bytes, rate, seconds, 1);
        double elapsed = now_s() - begin, cpu_used = cpu_s() - cpu;
        emit("stop");
        for (double end = now_s(); arrived < sent && now_s() - end < DRAIN_S;) usleep(1000);
        long missing = sent - arrived;
        stopping = 1;
        pthread_join(receiver, NULL);
        pthread_join(poller, NULL);
        print_result(&arrival_latencies, sent, elapsed, cpu_used, 1);
        if (missing) fail("%ld of %ld records did not arrive", missing, sent);
    }
    fflush(stdout);
    _exit(failed ? 1 : 0);
}
