/* The page by which a preloaded library is told what to do, and tells what it did: shared_page.py.
 *
 * Without it a library would do nothing and nobody would notice, so that a process which was told of
 * a page, and cannot map it, ends.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns the page in a file that was opened to read and write. */
static void *shared_page(int fd, size_t size) {
    if (fd < 0)
        abort();
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        abort();
    close(fd);
    return page;
}
