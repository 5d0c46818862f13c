/* produce BROKERS TOPIC PARTITIONS VALUE_BYTES WARMUP_S SECONDS RECORDS [NAME=VALUE...]
 *
 * Sends records as fast as librdkafka can, a burst to one partition, then to the next.  With RECORDS > 0 it sends
 * exactly so many and measures from the first to the last acknowledgement; else it measures for SECONDS
 * what was acknowledged, after WARMUP_S. */
#define QUORATE_RDKAFKA
#include "common.h"

#define VALUES 64 /* different values, so that nothing can be a constant by accident */
#define BURST 1000
#define FLUSH_TIMEOUT_MS 60000

static long failed;

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err && failed++ < 3)
        fprintf(stderr, "not delivered: %s\n", rd_kafka_err2str(message->err));
}

struct load {
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    char *values;
    size_t value_bytes;
    int partitions, partition;
    long sent;
};

/* Moves the messages that did not get into the queue to the front; returns how many there are. */
static int keep_refused(rd_kafka_message_t *messages, int count) {
    int refused = 0;
    for (int i = 0; i < count; i++) {
        if (!messages[i].err) continue;
        if (messages[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            fail("%s", rd_kafka_err2str(messages[i].err));
        messages[refused++] = messages[i];
    }
    return refused;
}

/* One call for many records: else the lock of librdkafka's queue is what we would measure. */
static void send_burst(struct load *l, long count) {
    static rd_kafka_message_t messages[BURST];
    for (long i = 0; i < count; i++) {
        char *value = l->values + (size_t)((l->sent + i) % VALUES) * l->value_bytes;
        messages[i] = (rd_kafka_message_t){.payload = value, .len = l->value_bytes};
    }
    l->partition = l->partition + 1 == l->partitions ? 0 : l->partition + 1;
    for (int left = (int)count; left > 0;) {
        int sent = rd_kafka_produce_batch(l->topic, l->partition, 0, messages, left);
        if (sent == left) break;
        left = keep_refused(messages, left);
        rd_kafka_poll(l->rk, 5);
    }
    l->sent += count;
    rd_kafka_poll(l->rk, 0);
}

/* Only failures are reported, so what has left the queue and did not fail was acknowledged. */
static long acknowledged(const struct load *l) {
    return l->sent - rd_kafka_outq_len(l->rk) - failed;
}

static void print_result(const struct load *l, long records, double seconds, double client_cpu_s) {
    printf("{\"event\": \"result\", \"records\": %ld, \"seconds\": %.6f, \"records_per_s\": %.1f"
           ", \"bytes_per_s\": %.1f, \"client_cpu_s\": %.4f, \"failed\": %ld}\n",
           records, seconds, (double)records / seconds,
           (double)records * (double)l->value_bytes / seconds, client_cpu_s, failed);
    fflush(stdout);
}

static void send_for(struct load *l, double warmup_s, double seconds) {
    double start = now_s();
    while (now_s() - start < warmup_s) send_burst(l, BURST);
    emit("begin");
    long first = acknowledged(l);
    double begin = now_s(), cpu = cpu_s();
    while (now_s() - begin < seconds) send_burst(l, BURST);
    long records = acknowledged(l) - first;
    double elapsed = now_s() - begin;
    emit("stop");
    print_result(l, records, elapsed, cpu_s() - cpu);
    rd_kafka_flush(l->rk, FLUSH_TIMEOUT_MS);
}

static void send_exactly(struct load *l, long records) {
    emit("begin");
    double begin = now_s(), cpu = cpu_s();
    while (l->sent < records) send_burst(l, records - l->sent < BURST ? records - l->sent : BURST);
    rd_kafka_flush(l->rk, FLUSH_TIMEOUT_MS);
    emit("stop");
    print_result(l, acknowledged(l), now_s() - begin, cpu_s() - cpu);
}

int main(int count, char **words) {
    if (count < 8) fail("produce BROKERS TOPIC PARTITIONS VALUE_BYTES WARMUP_S SECONDS RECORDS ...");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set(conf, "queue.buffering.max.messages", "2000000");
    set(conf, "queue.buffering.max.kbytes", "524288");
    set(conf, "delivery.report.only.error", "true");
    set_all(conf, count - 8, words + 8);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);

    struct load l = {.partitions = atoi(words[3]), .value_bytes = (size_t)atol(words[4])};
    l.rk = client_new(RD_KAFKA_PRODUCER, conf);
    l.topic = topic_known(l.rk, words[2]);
    l.values = allocate(VALUES, l.value_bytes);
    srand(1); /* the same values in every run */
    for (size_t i = 0; i < VALUES * l.value_bytes; i++) l.values[i] = (char)(' ' + rand() % 90);

    long records = atol(words[7]);
    if (records > 0)
        send_exactly(&l, records);
    else
        send_for(&l, atof(words[5]), atof(words[6]));
    int unsent = rd_kafka_outq_len(l.rk);
    if (failed || unsent) fail("%ld records failed, %d were not acknowledged", failed, unsent);
    return 0;
}
