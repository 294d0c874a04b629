/* Kills a process at its Nth operation on files: LD_PRELOAD=killat.so KILL_AT=N.

   Counts, over all threads, the calls that create, write, sync, rename, link, remove or
   change the mode of files whose path begins with KILL_BELOW. The process is killed
   before the Nth of them; of a write, half is done first. With KILL_AT=0 nothing is
   killed, and the number of operations is written to the file KILL_COUNT. Processes
   that are started without these variables are let alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long seen;
static long kill_at = -1;
static const char *below;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("KILL_AT");
    below = getenv("KILL_BELOW");
    kill_at = at && below ? atol(at) : -1;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("KILL_COUNT");
    FILE *file = kill_at == 0 && path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", atomic_load(&seen));
        fclose(file);
    }
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static int is_last(const char *path)
{
    if (kill_at < 0 || strncmp(path, below, strlen(below)))
        return 0;
    return atomic_fetch_add(&seen, 1) + 1 == kill_at;
}

static int is_last_fd(int fd)
{
    char link[64], path[PATH_MAX];
    if (kill_at < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return 0;
    path[len] = 0;
    return is_last(path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define ON_PATH(path, type, name, parameters, arguments) \
    type name parameters \
    { \
        if (is_last(path)) \
            die(); \
        return NEXT(name) arguments; \
    }

#define ON_FD(type, name, parameters, arguments) \
    type name parameters \
    { \
        if (is_last_fd(fd)) \
            die(); \
        return NEXT(name) arguments; \
    }

#define OPEN(name, parameters, arguments) \
    int name parameters \
    { \
        va_list list; \
        va_start(list, flags); \
        mode_t mode = va_arg(list, mode_t); \
        va_end(list); \
        if (flags & O_CREAT && is_last(path)) \
            die(); \
        return NEXT(name) arguments; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
ON_FD(int, fsync, (int fd), (fd))
ON_FD(int, fdatasync, (int fd), (fd))
ON_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))
ON_FD(int, ftruncate, (int fd, off_t len), (fd, len))
ON_FD(int, ftruncate64, (int fd, off64_t len), (fd, len))
ON_PATH(to, int, rename, (const char *from, const char *to), (from, to))
ON_PATH(to, int, link, (const char *from, const char *to), (from, to))
ON_PATH(to, int, symlink, (const char *from, const char *to), (from, to))
ON_PATH(path, int, unlink, (const char *path), (path))
ON_PATH(path, int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
ON_PATH(path, int, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(path, int, rmdir, (const char *path), (path))
ON_PATH(path, int, chmod, (const char *path, mode_t mode), (path, mode))

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    if (is_last(to))
        die();
    return NEXT(renameat)(from_dir, from, to_dir, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (is_last(to))
        die();
    return NEXT(renameat2)(from_dir, from, to_dir, to, flags);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    if (is_last_fd(fd)) {
        NEXT(write)(fd, bytes, len / 2);
        die();
    }
    return NEXT(write)(fd, bytes, len);
}
