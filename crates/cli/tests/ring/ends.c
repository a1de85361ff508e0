// Both ends of a pipe, each in several ways. The stream is a fixed function of the position, so a reader that knows where it
// began can check every byte.
//
//   write BYTES CALL [AFTER DO]      read BEGIN CALL [AFTER DO]
//
// CALL: call (read, write), stdio. After AFTER bytes it does DO once: none, exec PROGRAM ARGS, fork, nowhere, poll, epoll, dup, signals,
// close, readv, robust, vfork, limit, confine-prctl, confine-syscall. A writer reports "wrote BYTES WCHAR STATUS" on stderr, a reader "read BYTES" when every byte was right.
// With TIDY a writer fails if memory of the library's is open at its end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char byte_at(unsigned long long at) {
    at *= 0x9e3779b97f4a7c15ull;
    return (at >> 56) ^ (at >> 40);
}

static unsigned long long own_io(const char *name) {
    FILE *file = fopen("/proc/self/io", "r");
    char line[100];
    unsigned long long value = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) value = strtoull(line + strlen(name), 0, 10);
    if (file) fclose(file);
    return value;
}

static volatile int interrupted;
static void on_alarm(int signal) { (void)signal; interrupted++; }

// Death for whatever is not read, write, exit or what stdio needs for memory, but for opening a file, which fails.
static int confine(int by_prctl) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                    : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static pthread_mutex_t robust;

static void act(char **what, int fd) {
    if (!strcmp(what[0], "exec")) {
        execv(what[1], what + 1);
        perror("exec");
        _exit(99);
    } else if (!strcmp(what[0], "fork")) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) return;
        // The child goes on alone.
        close(fd);
        waitpid(child, &status, 0);
        _exit(WEXITSTATUS(status));
    } else if (!strcmp(what[0], "nowhere")) {
        // What a program may do by mistake, and outside test suites do on purpose.
        void *nowhere[] = {0, (void *)-1, (void *)(1ull << 62)};
        for (int i = 0; i < 3; i++) {
            int flags = fcntl(fd, F_GETFL);
            ssize_t moved = (flags & O_ACCMODE) == O_RDONLY ? read(fd, nowhere[i], 10) : write(fd, nowhere[i], 10);
            if (moved != -1 || errno != EFAULT) _exit(96);
        }
    } else if (!strcmp(what[0], "poll")) {
        struct pollfd ends = {fd, POLLIN | POLLOUT, 0};
        if (poll(&ends, 1, -1) != 1) _exit(98);
    } else if (!strcmp(what[0], "epoll")) {
        struct epoll_event asked = {.events = EPOLLIN | EPOLLOUT}, told;
        int set = epoll_create1(0);
        if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &asked) || epoll_wait(set, &told, 1, -1) != 1) _exit(92);
        close(set);
    } else if (!strcmp(what[0], "limit")) {
        // No further file from here on, for the library neither.
        struct rlimit none = {0, 0};
        struct pollfd ends = {fd, POLLIN | POLLOUT, 0};
        if (setrlimit(RLIMIT_NOFILE, &none) || poll(&ends, 0, 0) != 0) _exit(93);
    } else if (!strcmp(what[0], "dup")) {
        int other = dup(fd);
        if (other < 0 || dup2(other, fd) != fd) _exit(97);
        close(other);
    } else if (!strcmp(what[0], "signals")) {
        struct sigaction action = {.sa_handler = on_alarm};
        struct itimerval every = {{0, 700}, {0, 700}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &every, 0);
    } else if (!strcmp(what[0], "close")) {
        close(fd);
        _exit(0);
    } else if (!strcmp(what[0], "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)0);
            _exit(94);
        }
        char *program[] = {"true", 0};
        child = vfork();
        if (child == 0) {
            execv("/bin/true", program);
            _exit(94);
        }
        while (wait(0) > 0);
    } else if (!strcmp(what[0], "robust")) {
        // The kernel is told of such a mutex where it could be told of another word. Then the writer sleeps, and this one ends.
        pthread_mutex_lock(&robust);
        pthread_mutex_unlock(&robust);
        usleep(50000);
        _exit(0);
    } else if (!strncmp(what[0], "confine-", 8)) {
        if (confine(!strcmp(what[0], "confine-prctl"))) _exit(95);
    } else if (!strcmp(what[0], "readv")) {
        char none;
        struct iovec parts = {&none, 0};
        readv(fd, &parts, 1);
    }
}

static int has_memory_open(void) {
    char path[40], target[100];
    for (int fd = 3; fd < 300; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        if (len < 0) continue;
        target[len] = 0;
        if (strstr(target, "millstream-joined")) return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    int writes = !strcmp(arguments[1], "write"), by_stdio = !strcmp(arguments[3], "stdio");
    unsigned long long first = strtoull(arguments[2], 0, 10), at = writes ? 0 : first, steps = 1;
    unsigned long long after = count > 5 ? strtoull(arguments[4], 0, 10) : ~0ull;
    static unsigned char bytes[200000];
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &kind);
    signal(SIGPIPE, getenv("IGNORE_SIGPIPE") ? SIG_IGN : SIG_DFL);
    for (;; steps = steps * 6364136223846793005ull + 1442695040888963407ull) {
        size_t size = 1 + (steps >> 33) % ((steps >> 60) ? 40000 : sizeof bytes);
        if (at >= after) {
            after = ~0ull;
            act(arguments + 5, !writes ? 0 : 1);
        }
        if (writes) {
            if (at == first) break;
            if (size > first - at) size = first - at;
            for (size_t i = 0; i < size; i++) bytes[i] = byte_at(at + i);
            ssize_t done = by_stdio ? (ssize_t)fwrite(bytes, 1, size, stdout) : write(1, bytes, size);
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) {
                fprintf(stderr, "wrote %llu %llu %s\n", at, own_io("wchar:"), strerrorname_np(errno));
                return 3;
            }
            at += done;
        } else {
            ssize_t done = by_stdio ? (ssize_t)fread(bytes, 1, size, stdin) : read(0, bytes, size);
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) {
                perror("read");
                return 4;
            }
            if (done == 0) break;
            for (ssize_t i = 0; i < done; i++)
                if (bytes[i] != byte_at(at + i)) {
                    fprintf(stderr, "wrong at %llu\n", at + i);
                    return 5;
                }
            at += done;
        }
    }
    fflush(stdout);
    if (writes && getenv("TIDY") && has_memory_open()) return 6;
    if (writes) fprintf(stderr, "wrote %llu %llu -\n", at, own_io("wchar:"));
    else fprintf(stderr, "read %llu\n", at - first);
    return 0;
}
