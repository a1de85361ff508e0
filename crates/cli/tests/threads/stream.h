// Records that programs with threads write and read, and what these programs share.
//
// A record has a header and bytes that depend on its writer, its number and their place in it. Every record that is read is checked
// whole. Records of one writer come in order, and its last one says so: a reader that has met the last records of all writers has
// got every byte. `DIR` is a directory of the pipeline, in which a file tells a peer that waits to go on.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// A peer that waits does so after BEFORE records; a stream has ALL.
enum { RECORD = 512, BEFORE = 6000, ALL = 10240, WRITERS = 8, LONGEST = 4096, BLOCK = 70000, LIMIT_S = 60 };
enum { IS_LAST = 1u << 31 };

struct header {
    uint16_t writer, size;
    uint32_t number;
};

static const char *role = "threads";

__attribute__((noreturn, unused)) static void failed(int line, const char *what) {
    char text[200];
    int len = snprintf(text, sizeof text, "%s %d: line %d: %s: %s\n", role, getpid(), line, what, strerror(errno));
    // By a call that is not this library's.
    if (write(2, text, len) != len) _exit(10);
    _exit(9);
}
#define CHECK(what) do { if (!(what)) failed(__LINE__, #what); } while (0)

static unsigned char byte_at(uint32_t writer, uint32_t number, uint32_t place) {
    uint64_t at = ((uint64_t)writer << 44 ^ (uint64_t)number << 12 ^ place) * 0x9e3779b97f4a7c15ull;
    return (at >> 56) ^ (at >> 40);
}

__attribute__((unused)) static void make_record(unsigned char *to, size_t size, uint32_t writer, uint32_t number, int is_last) {
    struct header header = {writer, size, number | (is_last ? IS_LAST : 0)};
    memcpy(to, &header, sizeof header);
    for (size_t i = sizeof header; i < size; i++) to[i] = byte_at(writer, number, i);
}

// What one reader has met of each writer. In order, but not every record where there are other readers.
struct met {
    uint32_t next[WRITERS], counts[WRITERS];
    int is_ended[WRITERS];
    long records;
};

// Checks a whole record; its header.
static struct header verify_record(struct met *met, const unsigned char *record, int has_all) {
    struct header header;
    memcpy(&header, record, sizeof header);
    uint32_t writer = header.writer, number = header.number & ~(uint32_t)IS_LAST;
    if (writer >= WRITERS || header.size < sizeof header || header.size > LONGEST || met->is_ended[writer] ||
        (has_all ? number != met->next[writer] : number < met->next[writer])) {
        fprintf(stderr, "%s %d: record %u of %u, %u bytes, after %u\n", role, getpid(), number, writer, header.size, met->next[writer % WRITERS]);
        _exit(8);
    }
    for (size_t i = sizeof header; i < header.size; i++)
        if (record[i] != byte_at(writer, number, i)) {
            fprintf(stderr, "%s %d: record %u of %u is wrong at %zu\n", role, getpid(), number, writer, i);
            _exit(8);
        }
    met->next[writer] = number + 1;
    met->counts[writer]++;
    met->is_ended[writer] = (header.number & IS_LAST) != 0;
    met->records++;
    return header;
}

// A stream of records, cut anywhere.
struct input {
    struct met met;
    unsigned char kept[LONGEST];
    size_t len;
};

static void verify_bytes(struct input *input, const unsigned char *bytes, size_t size) {
    while (size > 0) {
        size_t wanted = sizeof(struct header);
        if (input->len >= wanted) {
            struct header header;
            memcpy(&header, input->kept, sizeof header);
            wanted = header.size < sizeof header || header.size > LONGEST ? sizeof header : header.size;
        }
        size_t some = wanted - input->len < size ? wanted - input->len : size;
        memcpy(input->kept + input->len, bytes, some);
        input->len += some;
        bytes += some;
        size -= some;
        struct header header;
        memcpy(&header, input->kept, sizeof header);
        if (input->len >= sizeof header && (input->len == header.size || header.size < sizeof header || header.size > LONGEST)) {
            verify_record(&input->met, input->kept, 1);
            input->len = 0;
        }
    }
}

// At the end of a stream: no part of a record is left, and of every writer the last one was there.
static void verify_end(const struct input *input, int may_be_cut) {
    int writers = 0;
    for (int writer = 0; writer < WRITERS; writer++) {
        writers += input->met.counts[writer] > 0;
        CHECK(may_be_cut || !input->met.counts[writer] || input->met.is_ended[writer]);
    }
    CHECK(may_be_cut || (input->len == 0 && writers > 0));
}

static uint64_t seed = 1;
__attribute__((unused)) static unsigned chance(unsigned below) {
    // Threads may mix their numbers up, which are none the worse.
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

static const char *path_of(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", getenv("DIR"), name);
    return path;
}

static void tell(const char *what) {
    int file = open(path_of(what), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(file >= 0 && close(file) == 0);
}

static void await(const char *what) {
    const char *path = path_of(what);
    for (int ms = 0; access(path, F_OK) != 0; ms++) {
        CHECK(ms < LIMIT_S * 1000);
        usleep(1000);
    }
}

// A peer that waits goes on.
__attribute__((unused)) static void let_go_on(void) { tell("go"); }

static void wait_to_go_on(void) {
    tell("waiting");
    await("go");
}

// A peer with one thread that writes the records of writer 0. `waits`: in the middle of it, for a file.
__attribute__((unused)) static int plain_writer(int waits, int may_be_cut) {
    unsigned char block[8 * RECORD];
    role = "writer";
    if (may_be_cut) signal(SIGPIPE, SIG_IGN);
    for (uint32_t number = 0; number < ALL;) {
        if (waits && number == BEFORE) wait_to_go_on();
        int count = 1 + number % 8;
        if (count > ALL - (int)number) count = ALL - number;
        if (waits && number < BEFORE && number + count > BEFORE) count = BEFORE - number;
        for (int i = 0; i < count; i++) make_record(block + i * RECORD, RECORD, 0, number + i, number + i == ALL - 1);
        ssize_t done = write(1, block, count * RECORD);
        if (done < 0 && errno == EPIPE && may_be_cut) break;
        CHECK(done == count * RECORD);
        number += count;
    }
    return 0;
}

// A peer with one thread that reads and checks all records.
__attribute__((unused)) static int plain_reader(int waits, int may_be_cut) {
    static unsigned char block[BLOCK];
    static struct input input;
    role = "reader";
    for (size_t done = 0;;) {
        if (waits && done == BEFORE * RECORD) wait_to_go_on();
        size_t wanted = sizeof block;
        if (waits && done < BEFORE * RECORD && done + wanted > BEFORE * RECORD) wanted = BEFORE * RECORD - done;
        ssize_t got = read(0, block, wanted);
        CHECK(got >= 0);
        if (got == 0) break;
        verify_bytes(&input, block, got);
        done += got;
    }
    verify_end(&input, may_be_cut);
    fprintf(stderr, "read %ld records\n", input.met.records);
    return 0;
}

// How often each record was read, by all readers of the pipeline's end together.
static unsigned char (*times_read)[1 << 16];

__attribute__((unused)) static void share_records(void) {
    size_t size = sizeof *times_read * WRITERS;
    int file = open(path_of("records"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(file >= 0 && ftruncate(file, size) == 0);
    times_read = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(times_read != MAP_FAILED && close(file) == 0);
}

// One of several readers has read whole records of one size.
__attribute__((unused)) static void share_read(struct met *met, const unsigned char *bytes, ssize_t len, size_t size) {
    CHECK(len > 0 && len % size == 0);
    for (ssize_t at = 0; at < len; at += size) {
        struct header header = verify_record(met, bytes + at, 0);
        CHECK(header.size == size);
        uint32_t number = header.number & ~(uint32_t)IS_LAST;
        CHECK(number < sizeof *times_read && __atomic_fetch_add(&times_read[header.writer][number], 1, __ATOMIC_SEQ_CST) == 0);
    }
}

// Every record of a writer was read, and once.
__attribute__((unused)) static void verify_shared(uint32_t writer, uint32_t records) {
    for (uint32_t number = 0; number < sizeof *times_read; number++)
        if (times_read[writer][number] != (number < records)) {
            fprintf(stderr, "%s: record %u of %u was read %u times, of %u\n", role, number, writer, times_read[writer][number], records);
            _exit(8);
        }
}

__attribute__((unused)) static pthread_t begin_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    CHECK((errno = pthread_create(&thread, 0, function, argument)) == 0);
    return thread;
}

__attribute__((unused)) static void *end_thread(pthread_t thread) {
    void *result;
    CHECK((errno = pthread_join(thread, &result)) == 0);
    return result;
}

__attribute__((unused)) static void reap(pid_t child) {
    int status = -1;
    pid_t reaped;
    CHECK(child > 0);
    while ((reaped = waitpid(child, &status, 0)) < 0 && errno == EINTR) {}
    if (status != 0) fprintf(stderr, "%s: child's status %x\n", role, status);
    CHECK(reaped == child && status == 0);
}
