// Writes or reads a stream whose every byte is known; in the middle of it the constants of a library are read, or executed.
//
//   user write|read nothing|read|execute|handler|child|thread|blocked|write-there|for-ever|prefix
//
// 'blocked': a thread that holds all signals back runs a function beside the constants all the time. 'write-there': a variable beside them is
// written. 'for-ever': memory that cannot be executed stays so. 'prefix': the program's own system call has one.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            exit(1); \
        } \
    } while (0)

enum { TOTAL = 24 << 20, BEFORE = 16 << 20, PIECE = 32 << 10 };

long constants(void);
void count_down(long);
long prefixed(long number, int fd, void *bytes, size_t len);

// The bytes before the call keep it from being taken for a part of another instruction.
__asm__(".text\n\t.balign 64\n\t.rept 128\n\tnop\n\t.endr\n\t.globl prefixed\n\t.type prefixed, @function\n"
        "prefixed:\n\t"
        "movq %rdi, %rax\n\tmovq %rsi, %rdi\n\tmovq %rdx, %rsi\n\tmovq %rcx, %rdx\n\t"
        ".byte 0x48\n\tsyscall\n\t"
        "ret\n\t.rept 16\n\tnop\n\t.endr\n");

static pthread_barrier_t begins, ends;

static uint8_t byte_at(uint64_t at) { return (uint8_t)((at * 0x9e3779b97f4a7c15u) >> 56); }

static void execute(int signal) {
    (void)signal;
    CHECK(constants() == getpid());
}

static void *execute_in_thread(void *unused) {
    pthread_barrier_wait(&begins);
    execute(0);
    pthread_barrier_wait(&ends);
    return unused;
}

static void *run_beside_constants(void *unused) {
    for (;;) {
        count_down(1000000);
    }
    return unused;
}

static void prepare(const char *what) {
    pthread_t thread;
    sigset_t all, before;
    if (!strcmp(what, "blocked")) {
        CHECK(!sigfillset(&all) && !pthread_sigmask(SIG_BLOCK, &all, &before));
        CHECK(!pthread_create(&thread, NULL, run_beside_constants, NULL));
        CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
    }
    if (!strcmp(what, "for-ever")) {
        // PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN; missing before Linux 6.3.
        CHECK(!prctl(65, 1L, 0L, 0L, 0L) || errno == EINVAL);
    }
    CHECK(signal(SIGUSR1, execute) != SIG_ERR);
    if (!strcmp(what, "thread")) {
        CHECK(!pthread_barrier_init(&begins, NULL, 2) && !pthread_barrier_init(&ends, NULL, 2));
        CHECK(!pthread_create(&thread, NULL, execute_in_thread, NULL));
    }
}

static void act(const char *what) {
    if (!strcmp(what, "read")) {
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)constants;
        CHECK(bytes[5] == 0x0f && bytes[6] == 0x05);
    } else if (!strcmp(what, "execute") || !strcmp(what, "for-ever")) {
        execute(0);
    } else if (!strcmp(what, "handler")) {
        CHECK(!raise(SIGUSR1));
    } else if (!strcmp(what, "thread")) {
        pthread_barrier_wait(&begins);
        pthread_barrier_wait(&ends);
    } else if (!strcmp(what, "child")) {
        int status;
        pid_t child = vfork();
        if (child == 0) {
            // Its own process number tells whether the call was made.
            _exit(constants() == getpid() ? 0 : 1);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    } else {
        CHECK(!strcmp(what, "nothing") || !strcmp(what, "blocked") || !strcmp(what, "write-there") || !strcmp(what, "prefix"));
    }
}

int main(int count, char **words) {
    static uint8_t bytes[PIECE];
    CHECK(count == 3);
    int writes = !strcmp(words[1], "write"), has_acted = 0;
    prepare(words[2]);
    uint64_t at = 0;
    volatile long *beside = (volatile long *)((uintptr_t)constants + 128);
    for (;;) {
        if (!strcmp(words[2], "write-there")) {
            ++*beside;
        }
        if (at >= BEFORE && !has_acted) {
            has_acted = 1;
            act(words[2]);
        }
        if (writes) {
            for (int i = 0; i < PIECE; i++) {
                bytes[i] = byte_at(at + (uint64_t)i);
            }
            int is_own = has_acted && !strcmp(words[2], "prefix") && at % (PIECE * 16) == 0;
            CHECK((is_own ? prefixed(SYS_write, 1, bytes, PIECE) : write(1, bytes, PIECE)) == PIECE);
            at += PIECE;
            if (at == TOTAL) {
                break;
            }
        } else {
            int is_own = has_acted && !strcmp(words[2], "prefix");
            ssize_t moved = is_own ? prefixed(SYS_read, 0, bytes, PIECE) : read(0, bytes, PIECE);
            CHECK(moved >= 0);
            if (moved == 0) {
                break;
            }
            for (ssize_t i = 0; i < moved; i++) {
                CHECK(bytes[i] == byte_at(at + (uint64_t)i));
            }
            at += (uint64_t)moved;
        }
    }
    CHECK(at == TOTAL && has_acted);
    return 0;
}
