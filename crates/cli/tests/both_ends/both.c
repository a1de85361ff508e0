// Two processes that both keep both ends of a pipe, as a parent and the child that it has forked do. One writes words, each the number
// of the word, and the other reads them; LEFT bytes are in the pipe when one of the two does something else.
//
//   both parent|child DO
//
// The parent, or the child, is the writer. DO, in the middle: nothing, writer-reads, writer-reads-in-handler, writer-reads-in-thread,
// writer-reads-in-child, writer-reads-copy, writer-asks, writer-closes, writer-dies, reader-writes, reader-writes-in-handler, reader-closes,
// reader-dies, reader-polls. Or 'killed DELAY_US': the child dies at any time.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            _exit(1); \
        } \
    } while (0)

// LEFT is less than the smallest pipe holds.
enum { WORD = sizeof(uint64_t), TOTAL = 24 << 20, LEFT = 40000, PIECE = 32 << 10 };

struct shared {
    // Bytes of calls that have returned.
    atomic_ullong written, read;
    // The process that is to do something is done with it.
    atomic_int is_done;
};

static struct shared *shared;
static int reader, writer;
static const char *what;

static int is(const char *name) { return !strcmp(what, name); }

static void write_words(uint64_t from, uint64_t bytes) {
    static uint64_t words[PIECE / WORD];
    while (bytes > 0) {
        size_t len = bytes < PIECE ? bytes : PIECE;
        for (size_t at = 0; at < len / WORD; at++) words[at] = from / WORD + at;
        for (size_t done = 0; done < len;) {
            ssize_t moved = write(writer, (char *)words + done, len - done);
            CHECK(moved > 0);
            done += moved;
        }
        from += len;
        bytes -= len;
        atomic_store(&shared->written, from);
    }
}

static void read_words_of(int end, uint64_t from, uint64_t bytes) {
    static uint64_t words[PIECE / WORD];
    while (bytes > 0) {
        size_t len = bytes < PIECE ? bytes : PIECE;
        for (size_t done = 0; done < len;) {
            ssize_t moved = read(end, (char *)words + done, len - done);
            CHECK(moved > 0);
            done += moved;
        }
        for (size_t at = 0; at < len / WORD; at++) CHECK(words[at] == from / WORD + at);
        from += len;
        bytes -= len;
        atomic_store(&shared->read, from);
    }
}

static void read_left(void) { read_words_of(reader, TOTAL - LEFT, LEFT); }

static void check_that_nothing_comes(void) {
    struct pollfd asked = {reader, POLLIN, 0};
    CHECK(poll(&asked, 1, 50) == 0);
}

static void on_signal(int number) {
    (void)number;
    is("reader-writes-in-handler") ? write_words(TOTAL, WORD) : read_left();
}

static void *in_thread(void *unused) {
    read_left();
    return unused;
}

static void await(int wanted) {
    while (atomic_load(&shared->is_done) < wanted) usleep(100);
}

static int status_of(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// Whether the bytes that were left have been read.
static int act_as_writer(void) {
    if (is("writer-reads")) {
        read_left();
    } else if (is("writer-reads-in-handler")) {
        CHECK(!raise(SIGUSR1));
    } else if (is("writer-reads-in-thread")) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, in_thread, NULL) && !pthread_join(thread, NULL));
    } else if (is("writer-reads-in-child")) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            read_left();
            _exit(0);
        }
        CHECK(status_of(child) == 0);
    } else if (is("writer-reads-copy")) {
        int copy = dup(reader);
        CHECK(copy >= 0);
        read_words_of(copy, TOTAL - LEFT, LEFT);
    } else {
        int bytes = 0;
        struct pollfd asked = {reader, POLLIN, 0};
        if (is("writer-asks")) {
            CHECK(poll(&asked, 1, 0) == 1 && asked.revents == POLLIN);
            CHECK(!ioctl(reader, FIONREAD, &bytes) && bytes == LEFT);
        }
        if (is("writer-closes")) CHECK(!close(writer));
        if (is("writer-dies")) raise(SIGKILL);
        return 0;
    }
    check_that_nothing_comes();
    return 1;
}

static void write_all(void) {
    write_words(0, TOTAL);
    while (atomic_load(&shared->read) < TOTAL - LEFT) usleep(100);
    if (!strncmp(what, "writer-", 7)) {
        act_as_writer();
        atomic_store(&shared->is_done, 1);
    }
    if (is("reader-closes") || is("reader-dies")) {
        await(1);
        read_left();
        check_that_nothing_comes();
    }
    if (!is("reader-dies")) await(2);
}

static void read_all(void) {
    read_words_of(reader, 0, TOTAL - LEFT);
    if (is("writer-dies")) {
        while (atomic_load(&shared->written) < TOTAL) usleep(100);
        usleep(10000);
    } else if (!strncmp(what, "writer-", 7)) {
        await(1);
    } else {
        while (atomic_load(&shared->written) < TOTAL) usleep(100);
    }
    if (is("reader-writes")) write_words(TOTAL, WORD);
    if (is("reader-writes-in-handler")) CHECK(!raise(SIGUSR1));
    if (is("reader-polls")) {
        struct pollfd asked = {writer, POLLOUT, 0};
        CHECK(poll(&asked, 1, 0) == 1 && asked.revents == POLLOUT);
    }
    if (is("reader-closes") || is("reader-dies")) {
        if (is("reader-closes")) CHECK(!close(reader));
        atomic_store(&shared->is_done, 1);
        if (is("reader-dies")) raise(SIGKILL);
        while (atomic_load(&shared->read) < TOTAL) usleep(100);
        atomic_store(&shared->is_done, 2);
        return;
    }
    if (atomic_load(&shared->read) < TOTAL) read_left();
    if (!strncmp(what, "reader-writes", 13)) read_words_of(reader, TOTAL, WORD);
    check_that_nothing_comes();
    if (is("writer-closes")) {
        char byte;
        CHECK(!close(writer));
        CHECK(read(reader, &byte, 1) == 0);
    }
    atomic_store(&shared->is_done, 2);
}

static void end_wait(int number) { (void)number; }

// Writes until the reader is gone and the pipe is full. A timer ends the calls that wait.
static void write_until_death(pid_t child) {
    static uint64_t words[PIECE / WORD];
    struct sigaction ends = {.sa_handler = end_wait};
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    CHECK(!sigaction(SIGALRM, &ends, NULL) && !setitimer(ITIMER_REAL, &often, NULL));
    for (uint64_t from = 0;;) {
        for (size_t at = 0; at < PIECE / WORD; at++) words[at] = from / WORD + at;
        ssize_t moved = write(writer, words, PIECE);
        CHECK(moved > 0 ? moved % WORD == 0 : errno == EINTR);
        if (moved > 0) from += moved;
        atomic_store(&shared->written, from);
        if (moved != PIECE && waitpid(child, NULL, WNOHANG) == child) break;
    }
    CHECK(!setitimer(ITIMER_REAL, &never, NULL));
}

// What comes before nothing has come for a while, beginning with the byte `at`. Returns which byte would be the next.
static uint64_t read_until_nothing_comes(uint64_t at) {
    static unsigned char bytes[PIECE];
    struct pollfd asked = {reader, POLLIN, 0};
    while (poll(&asked, 1, 50) == 1) {
        ssize_t moved = read(reader, bytes, sizeof bytes);
        CHECK(moved > 0);
        for (ssize_t next = 0; next < moved; next++, at++) {
            uint64_t word = at / WORD;
            CHECK(bytes[next] == ((unsigned char *)&word)[at % WORD]);
        }
    }
    return at;
}

// The child dies at any time. What it has read is not there any more, and all that was written before is, in order and once.
static void outlive(pid_t child, int parent_writes) {
    if (!parent_writes) {
        uint64_t next = read_until_nothing_comes(0), written = atomic_load(&shared->written);
        CHECK(waitpid(child, NULL, 0) == child && next >= written && next <= written + PIECE);
        return;
    }
    write_until_death(child);
    // A call of the reader that did not return may have taken a piece.
    uint64_t word, read_before = atomic_load(&shared->read);
    struct pollfd asked = {reader, POLLIN, 0};
    CHECK(poll(&asked, 1, 0) == 1 && read(reader, &word, WORD) == WORD);
    CHECK(word * WORD >= read_before && word * WORD <= read_before + PIECE);
    CHECK(read_until_nothing_comes((word + 1) * WORD) == atomic_load(&shared->written));
}

int main(int argc, char **argv) {
    int ends[2];
    CHECK(argc >= 3);
    what = argv[2];
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && !pipe2(ends, O_CLOEXEC) && signal(SIGUSR1, on_signal) != SIG_ERR);
    reader = ends[0];
    writer = ends[1];
    int parent_writes = !strcmp(argv[1], "parent");
    pid_t child = fork();
    CHECK(child >= 0);
    if (is("killed")) {
        long delay_us = atol(argv[3]);
        if (child == 0) {
            struct itimerval then = {{0, 0}, {delay_us / 1000000, delay_us % 1000000}};
            CHECK(signal(SIGALRM, SIG_DFL) != SIG_ERR && !setitimer(ITIMER_REAL, &then, NULL));
            parent_writes ? read_words_of(reader, 0, UINT64_MAX) : write_words(0, UINT64_MAX);
        }
        outlive(child, parent_writes);
        return 0;
    }
    if ((child > 0) == parent_writes) {
        write_all();
    } else {
        read_all();
    }
    if (child == 0) _exit(0);
    int status = status_of(child);
    CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return 0;
}
