/* Stands between our tools and libc, loaded by LD_PRELOAD: counts calls, and at a chosen one makes
 * something happen. Only programs that have a file in the folder FAULT_STATE are touched; the file is
 * their counters, shared by all processes of that name:
 *
 *   FAULT_AT=TOOL:io|name:N   before the N-th read or write, or the N-th call that makes, syncs,
 *                             renames or removes a file, of all processes of TOOL together
 *   FAULT_DO=kill|killall|term|termall|readonly    a signal to the process or to its group; or
 *   FAULT_FOLDER=DIR                               this folder loses its permission to be written
 *   FAULT_SHORT=SEED:PERMILLE  so many of a thousand reads and writes are interrupted or short
 *
 * Descriptors that do not block are left alone: no kernel interrupts those, and runtimes take a
 * short read there for an empty one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { IO, NAME };

static _Atomic uint64_t *counts;
static uint64_t at[2] = {UINT64_MAX, UINT64_MAX};
static uint64_t seed, permille;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *state = getenv("FAULT_STATE"), *when = getenv("FAULT_AT"), *shorts = getenv("FAULT_SHORT");
    const char *tool = program_invocation_short_name;
    char path[4096];
    if (!state) return;
    snprintf(path, sizeof path, "%s/%s", state, tool);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, 2 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return;
    size_t length = strlen(tool);
    if (when && !strncmp(when, tool, length) && when[length] == ':') {
        int is_name = !strncmp(when + length + 1, "name:", 5);
        at[is_name ? NAME : IO] = strtoull(strrchr(when, ':') + 1, NULL, 10);
    }
    if (shorts) {
        seed = strtoull(shorts, NULL, 10);
        permille = strtoull(strchr(shorts, ':') + 1, NULL, 10);
    }
    counts = map;
}

static void strike(void) {
    const char *what = getenv("FAULT_DO");
    if (!what) return;
    if (!strcmp(what, "readonly")) chmod(getenv("FAULT_FOLDER"), 0555);
    pid_t whom = strstr(what, "all") ? 0 : getpid();
    if (!strncmp(what, "kill", 4)) kill(whom, SIGKILL);
    if (!strncmp(what, "term", 4)) kill(whom, SIGTERM);
}

/* Counts a call and returns its number. */
static uint64_t point(int kind) {
    if (!counts) return 0;
    int before = errno;
    uint64_t n = atomic_fetch_add(&counts[kind], 1) + 1;
    if (n == at[kind]) strike();
    errno = before;
    return n;
}

/* How much of `size` a call may do: -1 is an interruption. */
static ssize_t allowance(int fd, size_t size) {
    uint64_t n = point(IO);
    if (!counts || !permille) return size;
    uint64_t x = (n + seed) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 31;
    if (x % 1000 >= permille || fcntl(fd, F_GETFL) & O_NONBLOCK) return size;
    if (x >> 40 & 1) {
        errno = EINTR;
        return -1;
    }
    return size > 1 ? 1 + (x >> 20) % (size - 1) : size;
}

#define TRANSFER(name, buffer) \
    ssize_t name(int fd, buffer data, size_t size) { \
        REAL(name); \
        ssize_t most = allowance(fd, size); \
        return most < 0 ? -1 : real(fd, data, most); \
    }
TRANSFER(read, void *)
TRANSFER(write, const void *)

#define TRANSFER_AT(name, buffer) \
    ssize_t name(int fd, buffer data, size_t size, off64_t place) { \
        REAL(name); \
        ssize_t most = allowance(fd, size); \
        return most < 0 ? -1 : real(fd, data, most, place); \
    }
TRANSFER_AT(pread64, void *)
TRANSFER_AT(pwrite64, const void *)

/* A short vector is its first part that is not empty, or some of that. */
#define TRANSFER_ALL(name) \
    ssize_t name(int fd, const struct iovec *parts, int n) { \
        REAL(name); \
        size_t size = 0; \
        for (int i = 0; i < n; i++) size += parts[i].iov_len; \
        ssize_t most = allowance(fd, size); \
        if (most < 0) return -1; \
        if ((size_t)most == size) return real(fd, parts, n); \
        int first = 0; \
        while (!parts[first].iov_len) first++; \
        struct iovec part = parts[first]; \
        if ((size_t)most < part.iov_len) part.iov_len = most; \
        return real(fd, &part, 1); \
    }
TRANSFER_ALL(readv)
TRANSFER_ALL(writev)

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(copy_file_range);
    ssize_t most = allowance(in, size);
    return most < 0 ? -1 : real(in, from, out, to, most, flags);
}

ssize_t splice(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(splice);
    ssize_t most = allowance(in, size);
    return most < 0 ? -1 : real(in, from, out, to, most, flags);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        if (flags & (O_CREAT | O_TMPFILE)) point(NAME); \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        if (flags & O_CREAT) point(NAME); \
        return real(at, path, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

int fsync(int fd) { REAL(fsync); point(NAME); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); point(NAME); return real(fd); }
int unlink(const char *path) { REAL(unlink); point(NAME); return real(path); }
int rmdir(const char *path) { REAL(rmdir); point(NAME); return real(path); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); point(NAME); return real(path, mode); }
int rename(const char *from, const char *to) { REAL(rename); point(NAME); return real(from, to); }
int mkdirat(int at, const char *path, mode_t mode) { REAL(mkdirat); point(NAME); return real(at, path, mode); }
int unlinkat(int at, const char *path, int flags) { REAL(unlinkat); point(NAME); return real(at, path, flags); }

int linkat(int here, const char *from, int there, const char *to, int flags) {
    REAL(linkat);
    point(NAME);
    return real(here, from, there, to, flags);
}

int renameat2(int here, const char *from, int there, const char *to, unsigned flags) {
    REAL(renameat2);
    point(NAME);
    return real(here, from, there, to, flags);
}
