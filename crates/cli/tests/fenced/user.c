// Writes or reads a stream whose every byte is known; in the middle of it the constants of a library are read, or executed.
//
//   user write|read nothing|read|execute|handler|child|thread
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void prepare(const char *what) {
    pthread_t thread;
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
    } else if (!strcmp(what, "execute")) {
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
        CHECK(!strcmp(what, "nothing"));
    }
}

int main(int count, char **words) {
    static uint8_t bytes[PIECE];
    CHECK(count == 3);
    int writes = !strcmp(words[1], "write"), has_acted = 0;
    prepare(words[2]);
    uint64_t at = 0;
    for (;;) {
        if (at >= BEFORE && !has_acted) {
            has_acted = 1;
            act(words[2]);
        }
        if (writes) {
            for (int i = 0; i < PIECE; i++) {
                bytes[i] = byte_at(at + (uint64_t)i);
            }
            CHECK(write(1, bytes, PIECE) == PIECE);
            at += PIECE;
            if (at == TOTAL) {
                break;
            }
        } else {
            ssize_t moved = read(0, bytes, PIECE);
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
