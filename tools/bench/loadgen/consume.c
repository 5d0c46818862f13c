/* consume BROKERS TOPIC PARTITIONS RECORDS SECONDS [NAME=VALUE...]
 *
 * Reads a topic from its beginning as fast as librdkafka can, until RECORDS or SECONDS: its partitions
 * by themselves or, if there is a group.id among the settings, as the member of a group.
 * Measures from the arrival of the first records, which it does not count. */
#define QUORATE_RDKAFKA
#include "common.h"
#include <unistd.h>

#define BATCH 10000
#define FIRST_RECORD_TIMEOUT_S 20.0

static rd_kafka_message_t *messages[BATCH];

struct totals {
    long records;
    double bytes;
};

static struct totals receive(rd_kafka_queue_t *queue) {
    struct totals totals = {0, 0};
    ssize_t count = rd_kafka_consume_batch_queue(queue, 200, messages, BATCH);
    for (ssize_t i = 0; i < count; i++) {
        rd_kafka_message_t *message = messages[i];
        if (!message->err) {
            totals.records++;
            totals.bytes += (double)message->len;
        } else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            fail("cannot read: %s", rd_kafka_message_errstr(message));
        }
        rd_kafka_message_destroy(message);
    }
    return totals;
}

static rd_kafka_queue_t *partitions_of(rd_kafka_t *rk, const char *name, int partitions) {
    rd_kafka_topic_t *topic = topic_known(rk, name);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    for (int i = 0; i < partitions; i++)
        if (rd_kafka_consume_start_queue(topic, i, RD_KAFKA_OFFSET_BEGINNING, queue))
            fail("cannot start partition %d: %s", i, rd_kafka_err2str(rd_kafka_last_error()));
    return queue;
}

static rd_kafka_queue_t *member_of_a_group(rd_kafka_t *rk, const char *name) {
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, name, -1);
    rd_kafka_resp_err_t error = rd_kafka_poll_set_consumer(rk);
    if (!error) error = rd_kafka_subscribe(rk, topics);
    if (error) fail("cannot subscribe: %s", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(topics);
    return rd_kafka_queue_get_consumer(rk);
}

static int has_group(int count, char **words) {
    for (int i = 0; i < count; i++)
        if (!strncmp(words[i], "group.id=", 9)) return 1;
    return 0;
}

int main(int count, char **words) {
    if (count < 6) fail("consume BROKERS TOPIC PARTITIONS RECORDS SECONDS [NAME=VALUE...]");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", words[1]);
    set(conf, "queued.min.messages", "10000000"); /* never stop asking */
    set(conf, "queued.max.messages.kbytes", "1048576");
    set_all(conf, count - 6, words + 6);
    int partitions = atoi(words[3]);
    long records_max = atol(words[4]);
    double seconds_max = atof(words[5]);

    rd_kafka_t *rk = client_new(RD_KAFKA_CONSUMER, conf);
    rd_kafka_queue_t *queue = has_group(count - 6, words + 6) ? member_of_a_group(rk, words[2])
                                                              : partitions_of(rk, words[2], partitions);

    double start = now_s();
    long first = 0;
    while (!(first = receive(queue).records))
        if (now_s() - start > FIRST_RECORD_TIMEOUT_S) fail("no record in %s", words[2]);

    emit("begin");
    double begin = now_s(), last = begin, cpu = cpu_s(), bytes = 0;
    long records = 0;
    while (first + records < records_max && now_s() - begin < seconds_max) {
        struct totals got = receive(queue);
        if (got.records) last = now_s();
        records += got.records;
        bytes += got.bytes;
    }
    emit("stop");
    double seconds = last - begin;
    if (records == 0) fail("all %ld records came at once: nothing to measure", first);
    printf("{\"event\": \"result\", \"records\": %ld, \"seconds\": %.6f, \"records_per_s\": %.1f"
           ", \"bytes_per_s\": %.1f, \"client_cpu_s\": %.4f, \"failed\": 0}\n",
           records, seconds, (double)records / seconds, bytes / seconds, cpu_s() - cpu);
    fflush(stdout);
    _exit(0); /* without giving back millions of prefetched records one by one */
}
