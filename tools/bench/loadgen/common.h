/* Shared by the load generators: clocks, percentiles, librdkafka's settings, events.
 *
 * A generator prints one JSON object per line: "begin" and "stop" at the very moments between which it
 * measured, so that whoever reads them can sample the broker, and "result" with the figures when it
 * has them. */
#ifndef QUORATE_BENCH_COMMON_H
#define QUORATE_BENCH_COMMON_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

__attribute__((unused)) static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((unused)) static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

__attribute__((noreturn, unused, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

__attribute__((unused)) static void emit(const char *event) {
    printf("{\"event\": \"%s\"}\n", event);
    fflush(stdout);
}

__attribute__((unused)) static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) fail("out of memory");
    return memory;
}

/* Latencies in seconds, in a buffer that never grows: growing would stall what it measures. */
struct latencies {
    double *seconds;
    size_t count, capacity;
};

__attribute__((unused)) static struct latencies latencies_new(size_t capacity) {
    return (struct latencies){allocate(capacity, sizeof(double)), 0, capacity};
}

__attribute__((unused)) static void latencies_add(struct latencies *l, double seconds) {
    if (l->count < l->capacity) l->seconds[l->count++] = seconds;
}

__attribute__((unused)) static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

__attribute__((unused)) static double latencies_quantile_ms(const struct latencies *l, double q) {
    if (!l->count) return -1;
    size_t rank = (size_t)(q * (double)l->count);
    return l->seconds[rank < l->count ? rank : l->count - 1] * 1e3;
}

/* Prints the members p50_ms ... of a JSON object, with a comma before each. */
__attribute__((unused)) static void latencies_print(struct latencies *l) {
    qsort(l->seconds, l->count, sizeof(double), compare_doubles);
    printf(", \"latencies\": %zu, \"p50_ms\": %.6f, \"p90_ms\": %.6f, \"p99_ms\": %.6f"
           ", \"p999_ms\": %.6f, \"max_ms\": %.6f",
           l->count, latencies_quantile_ms(l, 0.5), latencies_quantile_ms(l, 0.9),
           latencies_quantile_ms(l, 0.99), latencies_quantile_ms(l, 0.999),
           latencies_quantile_ms(l, 1.0));
}

#ifdef QUORATE_RDKAFKA
#include <librdkafka/rdkafka.h>

__attribute__((unused)) static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        fail("%s", error);
}

/* Takes name=value words from the end of the command line. */
__attribute__((unused)) static void set_all(rd_kafka_conf_t *conf, int count, char **words) {
    for (int i = 0; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (!equals) fail("not name=value: %s", words[i]);
        *equals = 0;
        set(conf, words[i], equals + 1);
        *equals = '=';
    }
}

__attribute__((unused)) static rd_kafka_t *client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char error[512];
    rd_kafka_t *rk = rd_kafka_new(type, conf, error, sizeof error);
    if (!rk) fail("%s", error);
    return rk;
}

/* Returns a topic whose metadata the client knows, so that the first records do not wait for it. */
__attribute__((unused)) static rd_kafka_topic_t *topic_known(rd_kafka_t *rk, const char *name) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(rk, 0, topic, &metadata, 10000);
    if (error) fail("metadata of %s: %s", name, rd_kafka_err2str(error));
    rd_kafka_metadata_destroy(metadata);
    return topic;
}
#endif

#endif
