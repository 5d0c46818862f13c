/* A wall clock that is wrong, for one unmodified process, by LD_PRELOAD.
 *
 * QUORATE_CLOCK is a file that both sides map: how far the clock is ahead, and how fast it runs.
 * Monotonic clocks stay as they are, as they do on a machine whose time is set; so do all waits.
 *
 * cc -O2 -shared -fPIC -o clock.so clock.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "shared_page.h"

#define SECOND_NS 1000000000LL

/* The fields' order is clocks.py's FIELDS. */
struct control {
    volatile int64_t since_ns;  /* the right time when the rest was set */
    volatile int64_t ahead_ns;  /* how far the clock was ahead then */
    volatile int64_t extra_ppm; /* how much faster than right it runs since, in millionths */
    volatile int64_t reads;     /* how often it was read while it was wrong */
};

static struct control *control;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("QUORATE_CLOCK");
    if (path != NULL)
        control = shared_page(open(path, O_RDWR | O_CLOEXEC), sizeof *control);
}

static int64_t shown_ns(int64_t right_ns) {
    if (control == NULL || (control->ahead_ns == 0 && control->extra_ppm == 0))
        return right_ns;
    __sync_add_and_fetch(&control->reads, 1);
    int64_t passed_us = (right_ns - control->since_ns) / 1000;
    return right_ns + control->ahead_ns + passed_us * control->extra_ppm / 1000;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (real_clock_gettime == NULL)
        *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shown = shown_ns(time->tv_sec * SECOND_NS + time->tv_nsec);
        time->tv_sec = shown / SECOND_NS;
        time->tv_nsec = shown % SECOND_NS;
    }
    return result;
}

int gettimeofday(struct timeval *restrict shown, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (result == 0) {
        shown->tv_sec = now.tv_sec;
        shown->tv_usec = now.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL)
        *place = now.tv_sec;
    return now.tv_sec;
}
