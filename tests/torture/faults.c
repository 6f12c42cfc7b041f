/* Preloaded into a program, makes a call of it fail as tests/torture/faults.h says.
 *
 * glibc calls its own functions without these in between, so what stdio writes to stdout would escape.
 * stdout is therefore replaced by a stream that calls write.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE              /* it defines some of the functions below in headers */
#include "tests/torture/faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The function of this name that the program would have called. */
#define REAL(name)                                                                                           \
    static __typeof__(name) *real;                                                                           \
    if (!real) *(void **)(&real) = dlsym(RTLD_NEXT, #name)

static fault_page *page;            /* NULL: nothing fails */

/* --- what happens to a call --------------------------------------------------------------- */

/* Without a call that is counted. */
static void note_file(const char *path, int fd)
{
    char name[32];
    if (path) {
        strncpy(page->path, path, FAULT_PATH - 1);
    } else if (fd >= 0) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        (void)syscall(SYS_readlinkat, AT_FDCWD, name, page->path, FAULT_PATH - 1);
    }
}

/* Counts the call on path, or on fd.  A signal has been sent when it returns. */
static fault_action due(fault_call call, const char *path, int fd)
{
    if (!page) return FAULT_NONE;
    const fault *f    = &page->plan;
    long         mine = atomic_fetch_add(&page->count[call], 1) + 1;
    const long   any  = call < FAULT_SYSTEM ? atomic_fetch_add(&page->count[CALL_SYSTEM], 1) + 1 : 0;
    if (f->call == CALL_SYSTEM && any) mine = any;
    else if (f->call != call) return FAULT_NONE;
    if (f->action == FAULT_NONE || (f->on ? mine < f->at : mine != f->at)) return FAULT_NONE;
    if (atomic_fetch_add(&page->hits, 1) == 0) note_file(path, fd);
    if (f->action != FAULT_SIGNAL && (f->action != FAULT_TORN || call == CALL_WRITE)) return f->action;
    raise(f->action == FAULT_SIGNAL ? f->number : SIGKILL);
    return FAULT_NONE;
}

static bool fails(fault_call call, const char *path, int fd)
{
    if (due(call, path, fd) != FAULT_ERROR) return false;
    errno = page->plan.number;
    return true;
}

static size_t half(size_t n) { return n > 1 ? n / 2 : n; }

/* --- files -------------------------------------------------------------------------------- */

/* The mode, which is there if a file may be created. */
#define MODE(flags, mode)                                                                                    \
    mode_t mode = 0;                                                                                         \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                   \
        va_list args;                                                                                        \
        va_start(args, flags);                                                                               \
        mode = va_arg(args, mode_t);                                                                         \
        va_end(args);                                                                                        \
    }

int open(const char *path, int flags, ...)
{
    REAL(open);
    MODE(flags, mode)
    return fails(CALL_OPEN, path, -1) ? -1 : real(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    REAL(openat);
    MODE(flags, mode)
    return fails(CALL_OPEN, path, -1) ? -1 : real(dir, path, flags, mode);
}

DIR *opendir(const char *path)
{
    REAL(opendir);
    return fails(CALL_OPEN, path, -1) ? NULL : real(path);
}

DIR *fdopendir(int fd)
{
    REAL(fdopendir);
    return fails(CALL_OPEN, NULL, fd) ? NULL : real(fd);
}

int scandir(const char *path, struct dirent ***list, int (*keep)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **))
{
    REAL(scandir);
    return fails(CALL_OPEN, path, -1) ? -1 : real(path, list, keep, compare);
}

struct dirent *readdir(DIR *dir)
{
    REAL(readdir);
    return fails(CALL_READ, NULL, dirfd(dir)) ? NULL : real(dir);
}

ssize_t read(int fd, void *to, size_t n)
{
    REAL(read);
    switch (due(CALL_READ, NULL, fd)) {
    case FAULT_ERROR: return errno = page->plan.number, -1;
    case FAULT_SHORT: return real(fd, to, half(n));
    default: return real(fd, to, n);
    }
}

ssize_t write(int fd, const void *from, size_t n)
{
    REAL(write);
    switch (due(CALL_WRITE, NULL, fd)) {
    case FAULT_ERROR: return errno = page->plan.number, -1;
    case FAULT_SHORT: return real(fd, from, half(n));
    case FAULT_TORN: return (void)!real(fd, from, half(n)), raise(SIGKILL), -1;
    default: return real(fd, from, n);
    }
}

int fsync(int fd)
{
    REAL(fsync);
    return fails(CALL_FSYNC, NULL, fd) ? -1 : real(fd);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    return fails(CALL_RENAME, to, -1) ? -1 : real(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    REAL(renameat);
    return fails(CALL_RENAME, to, -1) ? -1 : real(from_dir, from, to_dir, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    return fails(CALL_UNLINK, path, -1) ? -1 : real(path);
}

int unlinkat(int dir, const char *path, int flags)
{
    REAL(unlinkat);
    return fails(CALL_UNLINK, path, -1) ? -1 : real(dir, path, flags);
}

int rmdir(const char *path)
{
    REAL(rmdir);
    return fails(CALL_UNLINK, path, -1) ? -1 : real(path);
}

int remove(const char *path)
{
    REAL(remove);
    return fails(CALL_UNLINK, path, -1) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return fails(CALL_MKDIR, path, -1) ? -1 : real(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    REAL(mkdirat);
    return fails(CALL_MKDIR, path, -1) ? -1 : real(dir, path, mode);
}

/* The descriptor is closed in any case, as on Linux. */
int close(int fd)
{
    REAL(close);
    const bool failed = fails(CALL_CLOSE, NULL, fd);
    const int  status = real(fd);
    if (failed) errno = page->plan.number;
    return failed ? -1 : status;
}

int flock(int fd, int operation)
{
    REAL(flock);
    return fails(CALL_LOCK, NULL, fd) ? -1 : real(fd, operation);
}

int access(const char *path, int mode)
{
    REAL(access);
    return fails(CALL_STAT, path, -1) ? -1 : real(path, mode);
}

int stat(const char *restrict path, struct stat *restrict s)
{
    REAL(stat);
    return fails(CALL_STAT, path, -1) ? -1 : real(path, s);
}

int lstat(const char *restrict path, struct stat *restrict s)
{
    REAL(lstat);
    return fails(CALL_STAT, path, -1) ? -1 : real(path, s);
}

int fstat(int fd, struct stat *s)
{
    REAL(fstat);
    return fails(CALL_STAT, NULL, fd) ? -1 : real(fd, s);
}

int fstatat(int dir, const char *restrict path, struct stat *restrict s, int flags)
{
    REAL(fstatat);
    return fails(CALL_STAT, path, -1) ? -1 : real(dir, path, s, flags);
}

/* What a program calls instead that is compiled with _FORTIFY_SOURCE. */
int     __open_2(const char *path, int flags);
int     __openat_2(int dir, const char *path, int flags);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room);

int __open_2(const char *path, int flags) { return open(path, flags); }
int __openat_2(int dir, const char *path, int flags) { return openat(dir, path, flags); }

ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
    if (n > room) abort();
    return read(fd, to, n);
}

/* --- memory ------------------------------------------------------------------------------- */

/* dlsym allocates, so these names of glibc are called instead. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static bool denied(void)
{
    if (due(CALL_ALLOCATE, NULL, -1) != FAULT_ERROR) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) { return denied() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return denied() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return denied() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return denied() ? NULL : __libc_memalign(align, n); }
void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n) { return denied() ? NULL : __libc_memalign(align, n); }

int posix_memalign(void **p, size_t align, size_t n)
{
    void *block = denied() ? NULL : __libc_memalign(align, n);
    if (block) *p = block;
    return block ? 0 : ENOMEM;
}

/* --- threads, time ------------------------------------------------------------------------ */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *context)
{
    REAL(pthread_create);
    return fails(CALL_THREAD, NULL, -1) ? page->plan.number : real(thread, attr, run, context);
}

/* A reading takes a second or more, so that checkpoints that are due every few seconds come in a run that
 * is short. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    REAL(clock_gettime);
    const int status = real(clock, t);
    (void)due(CALL_CLOCK, NULL, -1);
    if (page && !status) t->tv_sec += (time_t)page->tick * atomic_load(&page->count[CALL_CLOCK]);
    return status;
}

/* --- main --------------------------------------------------------------------------------- */

static int (*program)(int, char **, char **);

/* All of it, as stdio does; a part that could not be written is an error to glibc. */
static ssize_t put(void *cookie, const char *from, size_t n)
{
    (void)cookie;
    size_t done = 0;
    while (done < n) {
        const ssize_t now = write(STDOUT_FILENO, from + done, n - done);
        if (now < 0) break;
        done += (size_t)now;
    }
    return (ssize_t)done;
}

static int begin(int argc, char **argv, char **env)
{
    const char *path = getenv(FAULT_VARIABLE);
    const int   fd   = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    FILE       *out  = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = put });
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || !out) {
        fprintf(stderr, "%s: '%s' cannot be mapped\n", FAULT_VARIABLE, path ? path : "");
        return 125;
    }
    close(fd);
    stdout = out;
    page   = map;
    return program(argc, argv, env);
}

/* Constructors of libraries run before, so none of their calls is counted. */
int __libc_start_main(int (*of)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*end)(void), void *stack);

int __libc_start_main(int (*of)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*end)(void), void *stack)
{
    REAL(__libc_start_main);
    program = of;
    return real(begin, argc, argv, init, fini, end, stack);
}
