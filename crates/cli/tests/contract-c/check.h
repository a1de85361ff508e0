// What the programs of the contract share: checks that name their line, and pipes of every origin.
#ifndef CHECK_H
#define CHECK_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void failed(const char *file, int line, const char *expectation, long long got, int error) {
    dprintf(2, "%s:%d: expected %s; got %lld, errno %d (%s)\n", file, line, expectation, got, error, strerror(error));
    _exit(1);
}
// A condition.
#define CHECK(condition) do { if (!(condition)) failed(__FILE__, __LINE__, #condition, 0, errno); } while (0)
// A call and what it returns.
#define IS(call, wanted) do { long long got_ = (long long)(call); \
    if (got_ != (long long)(wanted)) failed(__FILE__, __LINE__, #call " == " #wanted, got_, errno); } while (0)
// A call that fails, and how.
#define FAILS(call, error) do { errno = 0; long long got_ = (long long)(call); \
    if (got_ != -1 || errno != (error)) failed(__FILE__, __LINE__, #call " fails with " #error, got_, errno); } while (0)

// A program that hangs dies of SIGALRM.
__attribute__((constructor)) static void watchdog(void) { alarm(100); }

// A pipe as CONTRACT_KIND says: made here, inherited from the program before (the first one), or a FIFO.
__attribute__((unused)) static void pair(int ends[2]) {
    static int count;
    const char *kind = getenv("CONTRACT_KIND");
    if (kind && !strcmp(kind, "inherited") && count++ == 0) {
        CHECK((ends[0] = dup(30)) >= 0 && (ends[1] = dup(31)) >= 0);
        close(30);
        close(31);
    } else if (kind && !strcmp(kind, "fifo")) {
        char name[64];
        snprintf(name, sizeof name, "fifo-%d-%d", getpid(), count++);
        IS(mkfifo(name, 0600), 0);
        CHECK((ends[0] = open(name, O_RDONLY | O_NONBLOCK)) >= 0);
        CHECK((ends[1] = open(name, O_WRONLY)) >= 0);
        IS(fcntl(ends[0], F_SETFL, 0), 0);
        IS(unlink(name), 0);
    } else {
        IS(pipe(ends), 0);
    }
}

__attribute__((unused)) static void nonblocking(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    IS(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

__attribute__((unused)) static int waiting(int fd) {
    int bytes = -1;
    IS(ioctl(fd, FIONREAD, &bytes), 0);
    return bytes;
}

// Fills with whole pages until nothing more goes in; returns how much did.
__attribute__((unused)) static long fill(int fd) {
    static char page[4096];
    long total = 0, wrote;
    nonblocking(fd, 1);
    while ((wrote = write(fd, page, sizeof page)) > 0) total += wrote;
    CHECK(wrote == -1 && errno == EAGAIN);
    nonblocking(fd, 0);
    return total;
}

__attribute__((unused)) static void read_all(int fd, void *to, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, (char *)to + at, size - at);
        CHECK(got > 0);
        at += got;
    }
}

// The child has done all its checks.
__attribute__((unused)) static void passed(pid_t child) {
    int status = -1;
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
}

// Until a process or thread of this process sleeps (proc(5)).
__attribute__((unused)) static void until_asleep(pid_t id) {
    char path[64], text[512], *state;
    snprintf(path, sizeof path, "/proc/%d/stat", id);
    do {
        usleep(1000);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        ssize_t got = read(fd, text, sizeof text - 1);
        CHECK(got > 0);
        text[got] = 0;
        close(fd);
        CHECK((state = strrchr(text, ')')) != NULL);
    } while (state[2] != 'S');
}
#endif
