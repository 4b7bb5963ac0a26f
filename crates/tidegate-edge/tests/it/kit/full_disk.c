/* While the file FULL_DISK_FLAG is there, nothing can be written to files in FULL_DISK_FOLDER: whoever tries
   is told that no room is left on the device, by the system call itself. Loaded in front of the system's library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int fd) {
    const char *flag = getenv("FULL_DISK_FLAG"), *folder = getenv("FULL_DISK_FOLDER");
    char link[64], path[4096];
    int before = errno;
    if (!flag || !folder || access(flag, F_OK) != 0) {
        errno = before;
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder)) != 0) return 0;
    errno = ENOSPC;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *from, size_t count) {
    return is_full(fd) ? -1 : NEXT(write)(fd, from, count);
}

ssize_t pwrite(int fd, const void *from, size_t count, off_t at) {
    return is_full(fd) ? -1 : NEXT(pwrite)(fd, from, count, at);
}

ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    return is_full(fd) ? -1 : NEXT(pwrite64)(fd, from, count, at);
}

ssize_t writev(int fd, const struct iovec *from, int count) {
    return is_full(fd) ? -1 : NEXT(writev)(fd, from, count);
}

ssize_t pwritev(int fd, const struct iovec *from, int count, off_t at) {
    return is_full(fd) ? -1 : NEXT(pwritev)(fd, from, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *from, int count, off64_t at) {
    return is_full(fd) ? -1 : NEXT(pwritev64)(fd, from, count, at);
}

int posix_fallocate(int fd, off_t at, off_t count) {
    return is_full(fd) ? ENOSPC : NEXT(posix_fallocate)(fd, at, count);
}

int posix_fallocate64(int fd, off64_t at, off64_t count) {
    return is_full(fd) ? ENOSPC : NEXT(posix_fallocate64)(fd, at, count);
}

int fallocate(int fd, int mode, off_t at, off_t count) {
    return is_full(fd) ? -1 : NEXT(fallocate)(fd, mode, at, count);
}

int fallocate64(int fd, int mode, off64_t at, off64_t count) {
    return is_full(fd) ? -1 : NEXT(fallocate64)(fd, mode, at, count);
}
