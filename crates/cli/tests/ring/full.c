// The ends of a pipe in a process that has as many files open as it may. The stream is a fixed function of the position.
//
//   full write BYTES AFTER DO      full read HOW AFTER DO
//
// After AFTER bytes it opens files until it may open no more, and does DO: none, dup, fork, readv, unread (FIONREAD), poll. All but dup
// need no further file, so each has to answer as ever; then it goes on at its limit. Or "low": somebody else lowers its limit to
// nothing. Then FIONREAD may fail for that, which it reports. HOW: read, or poll, which now and then does nothing for a while between
// the two.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned char bytes[20000];
static unsigned long long at;

static void require(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "full: at %llu: %s: %s\n", at, what, strerror(errno));
    _exit(9);
}

static unsigned char byte_at(unsigned long long at) {
    at *= 0x9e3779b97f4a7c15ull;
    return (at >> 56) ^ (at >> 40);
}

static void write_some(size_t size) {
    for (size_t i = 0; i < size; i++) bytes[i] = byte_at(at + i);
    require(write(1, bytes, size) == (ssize_t)size, "write");
    at += size;
}

static void take(ssize_t size) {
    for (ssize_t i = 0; i < size; i++) require(bytes[i] == byte_at(at + i), "wrong");
    at += size;
}

enum { CLOSED = 1, ASKED, LOWERED, FAILED };

// A child that lowers this process's limit when it is told to. A reader may still poll one descriptor.
static volatile int *start_helper(int limit) {
    volatile int *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid(), child = fork();
    require(child >= 0, "fork");
    if (child > 0) {
        // Until the child has closed its copies it shares the pipe, which then does not join.
        while (*word != CLOSED) usleep(100);
        return word;
    }
    close(0);
    close(1);
    *word = CLOSED;
    while (*word == CLOSED && getppid() == parent) usleep(100);
    struct rlimit none = {limit, limit};
    *word = prlimit(parent, RLIMIT_NOFILE, &none, 0) == 0 ? LOWERED : FAILED;
    _exit(0);
}

static void go_low(volatile int *word, int fd) {
    int unread;
    *word = ASKED;
    while (*word == ASKED) usleep(100);
    require(*word == LOWERED, "prlimit");
    if (ioctl(fd, FIONREAD, &unread) == 0) return;
    require(errno == EMFILE, "FIONREAD");
    fprintf(stderr, "refused\n");
}

static void act(const char *what, int fd) {
    int unread = -1, status = -1;
    while (open("/dev/null", O_RDONLY) >= 0);
    require(errno == EMFILE, "open");
    if (fd == 1) {
        // The reader has read all there is and sleeps; this wakes it.
        usleep(5000);
        write_some(100);
    }
    if (!strcmp(what, "dup")) {
        // A writer that has not joined has a descriptor of the library's open, which it gives up now.
        int other = dup(fd);
        require(other >= 0 ? close(other) == 0 : errno == EMFILE, "dup");
    } else if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0) _exit(7);
        require(child > 0 && waitpid(-1, &status, 0) == child && WEXITSTATUS(status) == 7, "fork");
    } else if (!strcmp(what, "readv")) {
        struct iovec parts[2] = {{bytes, 10}, {bytes + 10, 10}};
        if (fd == 0) {
            ssize_t got = readv(fd, parts, 2);
            require(got > 0, "readv");
            take(got);
        } else {
            for (int i = 0; i < 20; i++) bytes[i] = byte_at(at + i);
            require(writev(fd, parts, 2) == 20, "writev");
            at += 20;
        }
    } else if (!strcmp(what, "unread")) {
        require(ioctl(fd, FIONREAD, &unread) == 0 && unread >= 0, "FIONREAD");
    } else if (!strcmp(what, "poll")) {
        struct pollfd end = {fd, POLLIN | POLLOUT, 0};
        require(poll(&end, 1, -1) == 1, "poll");
    }
    require(waitpid(-1, 0, WNOHANG | __WALL) == -1 && errno == ECHILD, "a child is left");
    for (int i = 0; i < 3; i++) require(fcntl(i, F_GETFD) >= 0, "a file is closed");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int count, char **arguments) {
    int writes = count == 5 && !strcmp(arguments[1], "write"), polls = !writes && !strcmp(arguments[2], "poll");
    unsigned long long limit = writes ? strtoull(arguments[2], 0, 10) : 0, after = strtoull(arguments[3], 0, 10);
    unsigned long long steps = 1;
    volatile int *helper = strcmp(arguments[4], "low") ? 0 : start_helper(writes ? 0 : 1);
    for (;; steps = steps * 6364136223846793005ull + 1442695040888963407ull) {
        size_t size = 1 + (steps >> 33) % sizeof bytes;
        if (at >= after) {
            after = ~0ull;
            if (helper) go_low(helper, writes ? 1 : 0);
            else if (strcmp(arguments[4], "none")) act(arguments[4], writes ? 1 : 0);
        }
        if (writes) {
            if (at >= limit) break;
            write_some(size);
            continue;
        }
        if (polls) {
            struct pollfd end = {0, POLLIN, 0};
            double begin = now();
            require(poll(&end, 1, -1) == 1, "poll");
            if (now() - begin > 3) usleep(20000);
        }
        ssize_t got = read(0, bytes, size);
        require(got >= 0, "read");
        if (got == 0) break;
        take(got);
    }
    fprintf(stderr, "%s %llu\n", writes ? "wrote" : "read", at);
    return 0;
}
