/* A disk that fails and forgets, for one unmodified process, by LD_PRELOAD.
 *
 * Sees every change that the process makes below QUORATE_SHIM_ROOT (an absolute path) and
 *
 *  - fails or delays it as the control page says (QUORATE_SHIM_CONTROL: a file, mapped by both sides);
 *  - appends it to a journal (QUORATE_SHIM_JOURNAL: a file), out of which power.py works out what a
 *    disk that lost its power would still hold.  A sync is noted with the journal's length when it
 *    began: what was written before that is safe once it has returned, and nothing else is.
 *
 * Changes by other ways than the functions below (mmap, writev, link, rename to another folder by
 * descriptor) are not seen.  broker and controller use none; a test checks that all bytes on disk are
 * accounted for after a clean stop.
 *
 * cc -O2 -shared -fPIC -o shim.so shim.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared_page.h"

#define DESCRIPTORS_MAX 65536
#define PATH_BYTES_MAX 4096

/* The control page; the fields' order is disks.py's FIELDS. */
struct control {
    volatile int64_t sync_errno;    /* what syncs fail with, 0 for success */
    volatile int64_t write_errno;   /* what writes fail with, 0 for success */
    volatile int64_t space_bytes;   /* how much files may still grow, -1 for no limit */
    volatile int64_t sync_delay_us; /* how much longer a sync takes */
    volatile int64_t sync_for_real; /* whether syncs reach the real disk */
    volatile int64_t kill_at_change; /* kill the process at this change; 0 for never */
    volatile int64_t changes;       /* changes so far */
    volatile int64_t faults;        /* failures so far that were ours */
    volatile int64_t sync_lies;     /* whether syncs return without making anything safe */
    volatile int64_t delays;        /* syncs so far that took longer because of us */
};

enum kind { OPENED = 1, WRITTEN, RESIZED, SYNCED, ALL_SYNCED, RENAMED, REMOVED, FOLDER_MADE };

/* What stands before each entry of the journal; power.py's ENTRY. */
struct entry {
    uint32_t size_bytes; /* of the two payloads */
    uint8_t kind;
    uint8_t flag;
    uint16_t first_bytes; /* of the first payload */
    uint64_t inode;
    int64_t number; /* position, size, or the journal's length at the begin of a sync */
};

static struct control *control;
static int journal = -1;
static int64_t journal_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held by who changes a name or goes by one, until it is noted: or the journal might say that a file
   was opened in a folder that another thread had renamed before. */
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_BYTES_MAX];
static size_t root_length;
/* Inodes of the descriptors that we watch, 0 for the others. */
static uint64_t watched[DESCRIPTORS_MAX];

static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_syncfs)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_posix_fallocate)(int, off_t, off_t);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);
static int (*real_mkdir)(const char *, mode_t);
static int (*real_rmdir)(const char *);

static void find_functions(void) {
    *(void **)&real_open = dlsym(RTLD_NEXT, "open64");
    *(void **)&real_openat = dlsym(RTLD_NEXT, "openat64");
    *(void **)&real_close = dlsym(RTLD_NEXT, "close");
    *(void **)&real_write = dlsym(RTLD_NEXT, "write");
    *(void **)&real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    *(void **)&real_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    *(void **)&real_syncfs = dlsym(RTLD_NEXT, "syncfs");
    *(void **)&real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    *(void **)&real_posix_fallocate = dlsym(RTLD_NEXT, "posix_fallocate64");
    *(void **)&real_rename = dlsym(RTLD_NEXT, "rename");
    *(void **)&real_unlink = dlsym(RTLD_NEXT, "unlink");
    *(void **)&real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    *(void **)&real_rmdir = dlsym(RTLD_NEXT, "rmdir");
}

__attribute__((constructor)) static void begin(void) {
    find_functions();
    const char *path = getenv("QUORATE_SHIM_ROOT");
    const char *page = getenv("QUORATE_SHIM_CONTROL");
    if (path == NULL || page == NULL || strlen(path) >= sizeof root)
        return;
    control = shared_page(real_open(page, O_RDWR | O_CLOEXEC), sizeof *control);
    strcpy(root, path);
    root_length = strlen(root);
    const char *file = getenv("QUORATE_SHIM_JOURNAL");
    if (file != NULL) {
        journal = real_open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (journal < 0)
            abort();
        journal_bytes = lseek(journal, 0, SEEK_END);
    }
}

/* Every function may be called before our constructor ran. */
static void ready(void) {
    if (real_rmdir == NULL)
        find_functions();
}

static int is_ours(const char *path) {
    return root_length != 0 && strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == '\0');
}

static uint64_t inode_of(int fd) {
    return fd >= 0 && fd < DESCRIPTORS_MAX ? watched[fd] : 0;
}

/* --- the journal ------------------------------------------------------------------------------ */

static void note(struct entry entry, const void *first, size_t first_bytes, const void *second,
                 size_t second_bytes) {
    if (journal < 0)
        return;
    entry.first_bytes = (uint16_t)first_bytes;
    entry.size_bytes = (uint32_t)(first_bytes + second_bytes);
    struct iovec parts[3] = {{&entry, sizeof entry},
                             {(void *)first, first_bytes},
                             {(void *)second, second_bytes}};
    ssize_t size = (ssize_t)(sizeof entry + first_bytes + second_bytes);
    pthread_mutex_lock(&lock);
    if (writev(journal, parts, 3) != size)
        abort(); /* better no verdict than a wrong one */
    journal_bytes += size;
    pthread_mutex_unlock(&lock);
}

static void note_path(enum kind kind, uint64_t inode, int flag, const char *path) {
    struct entry entry = {.kind = kind, .flag = (uint8_t)flag, .inode = inode};
    note(entry, path, strlen(path), NULL, 0);
}

static void note_number(enum kind kind, uint64_t inode, int64_t number) {
    struct entry entry = {.kind = kind, .inode = inode, .number = number};
    note(entry, NULL, 0, NULL, 0);
}

static void note_data(uint64_t inode, int64_t position, const void *data, size_t size) {
    struct entry entry = {.kind = WRITTEN, .inode = inode, .number = position};
    note(entry, NULL, 0, data, size);
}

static int64_t journal_length(void) {
    pthread_mutex_lock(&lock);
    int64_t length = journal_bytes;
    pthread_mutex_unlock(&lock);
    return length;
}

/* --- faults ----------------------------------------------------------------------------------- */

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Counts a change; returns whether it is the one to die at. */
static int is_last(void) {
    int64_t number = __sync_add_and_fetch(&control->changes, 1);
    return control->kill_at_change != 0 && number >= control->kill_at_change;
}

static int fail(int code) {
    __sync_add_and_fetch(&control->faults, 1);
    errno = code;
    return -1;
}

/* Takes growth off the space that is left; returns how much of it is granted. */
static int64_t take_space(int64_t growth) {
    if (growth <= 0)
        return growth;
    for (;;) {
        int64_t space = control->space_bytes;
        if (space < 0)
            return growth;
        int64_t granted = growth < space ? growth : space;
        if (__sync_bool_compare_and_swap(&control->space_bytes, space, space - granted))
            return granted;
    }
}

static int64_t size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? (int64_t)status.st_size : 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static void watch(int fd, const char *path, int flags) {
    struct stat status;
    if (fd >= DESCRIPTORS_MAX || fstat(fd, &status) != 0)
        return;
    int folder = S_ISDIR(status.st_mode);
    if (!folder && (flags & O_ACCMODE) == O_RDONLY)
        return;
    watched[fd] = status.st_ino;
    note_path(OPENED, status.st_ino, folder ? 2 : (flags & O_TRUNC) != 0, path);
}

static int open_ours(const char *path, int flags, mode_t mode) {
    struct stat status;
    int makes = (flags & O_CREAT) && lstat(path, &status) != 0;
    if (makes) {
        if (is_last())
            die();
        if (control->space_bytes == 0)
            return fail(ENOSPC);
    }
    pthread_mutex_lock(&names);
    int fd = real_open(path, flags, mode);
    if (fd >= 0)
        watch(fd, path, flags);
    pthread_mutex_unlock(&names);
    return fd;
}

static int open_any(const char *path, int flags, mode_t mode) {
    ready();
    return is_ours(path) ? open_ours(path, flags, mode) : real_open(path, flags, mode);
}

#define MODE_ARGUMENT(flags, mode)              \
    mode_t mode = 0;                            \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {    \
        va_list arguments;                      \
        va_start(arguments, flags);             \
        mode = va_arg(arguments, mode_t);       \
        va_end(arguments);                      \
    }

int open(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, mode)
    return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, mode)
    return open_any(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE_ARGUMENT(flags, mode)
    if (path[0] == '/')
        return open_any(path, flags, mode);
    ready();
    return real_openat(folder, path, flags, mode);
}

int close(int fd) {
    ready();
    if (inode_of(fd))
        watched[fd] = 0;
    return real_close(fd);
}

/* Writes to a file of ours; a negative position stands for the file's own. */
static ssize_t write_ours(int fd, const void *data, size_t size, off_t position) {
    uint64_t inode = inode_of(fd);
    int at_own = position < 0;
    if (at_own)
        position = fcntl(fd, F_GETFL) & O_APPEND ? size_of(fd) : lseek(fd, 0, SEEK_CUR);
    int last = is_last();
    if (last)
        size = size / 2;
    if (control->write_errno)
        return fail((int)control->write_errno);
    int64_t growth = position + (int64_t)size - size_of(fd);
    int64_t granted = take_space(growth);
    if (granted < growth) {
        int64_t allowed = (int64_t)size - (growth - granted);
        if (allowed <= 0)
            return fail(ENOSPC);
        size = (size_t)allowed;
    }
    ssize_t written = at_own ? real_write(fd, data, size) : real_pwrite(fd, data, size, position);
    if (written > 0)
        note_data(inode, position, data, (size_t)written);
    if (last)
        die();
    return written;
}

ssize_t write(int fd, const void *data, size_t size) {
    ready();
    return inode_of(fd) ? write_ours(fd, data, size, -1) : real_write(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t position) {
    ready();
    return inode_of(fd) ? write_ours(fd, data, size, position)
                        : real_pwrite(fd, data, size, position);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t position) {
    return pwrite64(fd, data, size, position);
}

static int resize_ours(int fd, off_t size) {
    if (is_last())
        die();
    int64_t growth = size - size_of(fd);
    if (control->write_errno)
        return fail((int)control->write_errno);
    if (growth > 0 && take_space(growth) < growth)
        return fail(ENOSPC);
    int result = real_ftruncate(fd, size);
    if (result == 0)
        note_number(RESIZED, inode_of(fd), size);
    return result;
}

int ftruncate64(int fd, off64_t size) {
    ready();
    return inode_of(fd) ? resize_ours(fd, size) : real_ftruncate(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int posix_fallocate64(int fd, off64_t position, off64_t size) {
    ready();
    if (!inode_of(fd) || position + size <= size_of(fd))
        return real_posix_fallocate(fd, position, size);
    /* It returns the error instead of setting errno. */
    return resize_ours(fd, position + size) == 0 ? 0 : errno;
}

/* --- syncs ------------------------------------------------------------------------------------ */

static int sync_with(int (*real)(int), int fd, enum kind kind) {
    int64_t begun = journal_length();
    if (control->sync_delay_us) {
        __sync_add_and_fetch(&control->delays, 1);
        usleep((useconds_t)control->sync_delay_us);
    }
    if (is_last())
        die();
    if (control->sync_errno)
        return fail((int)control->sync_errno);
    int result = control->sync_for_real ? real(fd) : 0;
    if (result == 0 && !control->sync_lies)
        note_number(kind, inode_of(fd), begun);
    return result;
}

int fsync(int fd) {
    ready();
    return inode_of(fd) ? sync_with(real_fsync, fd, SYNCED) : real_fsync(fd);
}

int fdatasync(int fd) {
    ready();
    return inode_of(fd) ? sync_with(real_fdatasync, fd, SYNCED) : real_fdatasync(fd);
}

int syncfs(int fd) {
    ready();
    return inode_of(fd) ? sync_with(real_syncfs, fd, ALL_SYNCED) : real_syncfs(fd);
}

/* --- names ------------------------------------------------------------------------------------ */

int rename(const char *from, const char *to) {
    ready();
    if (!is_ours(from) && !is_ours(to))
        return real_rename(from, to);
    if (is_last())
        die();
    pthread_mutex_lock(&names);
    int result = real_rename(from, to);
    if (result == 0)
        note((struct entry){.kind = RENAMED}, from, strlen(from), to, strlen(to));
    pthread_mutex_unlock(&names);
    return result;
}

static int remove_ours(int (*real)(const char *), const char *path) {
    if (is_last())
        die();
    pthread_mutex_lock(&names);
    int result = real(path);
    if (result == 0)
        note_path(REMOVED, 0, 0, path);
    pthread_mutex_unlock(&names);
    return result;
}

int unlink(const char *path) {
    ready();
    return is_ours(path) ? remove_ours(real_unlink, path) : real_unlink(path);
}

int rmdir(const char *path) {
    ready();
    return is_ours(path) ? remove_ours(real_rmdir, path) : real_rmdir(path);
}

int mkdir(const char *path, mode_t mode) {
    ready();
    if (!is_ours(path))
        return real_mkdir(path, mode);
    struct stat status;
    if (lstat(path, &status) == 0)
        return real_mkdir(path, mode); /* which says that it exists */
    if (is_last())
        die();
    if (control->space_bytes == 0)
        return fail(ENOSPC);
    pthread_mutex_lock(&names);
    int result = real_mkdir(path, mode);
    if (result == 0)
        note_path(FOLDER_MADE, 0, 0, path);
    pthread_mutex_unlock(&names);
    return result;
}
