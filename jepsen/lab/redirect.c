/* Sends connections elsewhere, for one unmodified process, by LD_PRELOAD.
 *
 * QUORATE_REDIRECT is a list "port:other,port:other": who connects to 127.0.0.1:port gets to
 * 127.0.0.1:other.  So a proxy can stand between any two of some processes that all know each other
 * by the same addresses, and know which two.
 *
 * cc -O2 -shared -fPIC -o redirect.so redirect.c -ldl
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

static int (*real_connect)(int, const struct sockaddr *, socklen_t);

/* Returns where connections to a port of the loopback go. */
static unsigned long other_port(unsigned long port) {
    const char *rest = getenv("QUORATE_REDIRECT");
    while (rest != NULL && *rest != '\0') {
        char *end;
        unsigned long from = strtoul(rest, &end, 10);
        if (*end != ':')
            abort(); /* better no connection than a direct one */
        unsigned long to = strtoul(end + 1, &end, 10);
        if (from == port)
            return to;
        rest = *end == ',' ? end + 1 : end;
    }
    return port;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    if (real_connect == NULL)
        *(void **)&real_connect = dlsym(RTLD_NEXT, "connect");
    struct sockaddr_in changed;
    if (address->sa_family != AF_INET || length < sizeof changed)
        return real_connect(fd, address, length);
    changed = *(const struct sockaddr_in *)address;
    if (changed.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
        return real_connect(fd, address, length);
    changed.sin_port = htons((uint16_t)other_port(ntohs(changed.sin_port)));
    return real_connect(fd, (struct sockaddr *)&changed, sizeof changed);
}
