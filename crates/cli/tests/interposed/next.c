// A library that stands in front of write as well, as tracers and the like do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

ssize_t write(int fd, const void *bytes, size_t len) {
    static ssize_t (*behind)(int, const void *, size_t);
    if (!behind) behind = dlsym(RTLD_NEXT, "write");
    return behind(fd, bytes, len);
}
