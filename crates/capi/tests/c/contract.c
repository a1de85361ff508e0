/* What millstream.h promises beside the contract of pipe(7), which crates/conformance tests: arguments, errors, work in place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <millstream.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int checks;

#define CHECK(condition)                                                                                                     \
    do {                                                                                                                     \
        checks++;                                                                                                            \
        if (!(condition)) {                                                                                                  \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __func__, __LINE__, #condition, errno, ms_strerror(errno));        \
            exit(1);                                                                                                         \
        }                                                                                                                    \
    } while (0)

/* Whether a call fails with this number. */
#define FAILS(call, error) CHECK((errno = 0, (call)) == -1 && errno == (error))

static ms_reader *reader;
static ms_writer *writer;

static void open_pipe(uint32_t flags)
{
    ms_options options = MS_OPTIONS_INIT;
    options.flags = flags;
    CHECK(ms_pipe(&reader, &writer, &options) == 0);
}

static void close_pipe(void)
{
    CHECK(ms_close(reader) == 0);
    CHECK(ms_close(writer) == 0);
}

static void wrong_arguments_are_errors(void)
{
    char byte = 'x';
    struct iovec pieces[2];
    FAILS(ms_pipe(NULL, &writer, NULL), EINVAL);
    FAILS(ms_pipe(&reader, NULL, NULL), EINVAL);
    FAILS(ms_close(NULL), EBADF);
    FAILS(ms_read(NULL, &byte, 1), EBADF);
    FAILS(ms_write(NULL, &byte, 1), EBADF);
    FAILS(ms_fileno(NULL), EBADF);
    FAILS(ms_export(NULL), EBADF);
    FAILS(ms_capacity(NULL), EBADF);
    open_pipe(0);
    FAILS(ms_read((ms_reader *)(void *)writer, &byte, 1), EBADF);
    FAILS(ms_write((ms_writer *)(void *)reader, &byte, 1), EBADF);
    FAILS(ms_peek((ms_reader *)(void *)writer, pieces, 1), EBADF);
    FAILS(ms_reserve((ms_writer *)(void *)reader, pieces, 1), EBADF);
    FAILS(ms_read(reader, NULL, 1), EFAULT);
    FAILS(ms_write(writer, NULL, 1), EFAULT);
    FAILS(ms_readv(reader, NULL, 1), EFAULT);
    FAILS(ms_writev(writer, pieces, -1), EINVAL);
    FAILS(ms_writev(writer, pieces, 1025), EINVAL);
    FAILS(ms_peek(reader, NULL, 1), EINVAL);
    FAILS(ms_reserve(writer, NULL, 1), EINVAL);
    FAILS(ms_copy_to(reader, -1, 1), EBADF);
    FAILS(ms_dup_reader(reader, NULL), EINVAL);
    FAILS(ms_stats(reader, NULL), EINVAL);
    CHECK(ms_write(writer, NULL, 0) == 0);
    CHECK(ms_read(reader, NULL, 0) == 0);
    CHECK(ms_readv(reader, NULL, 0) == 0);
    close_pipe();
}

static void wrong_options_are_errors(void)
{
    struct {
        ms_options options;
        uint64_t added;
    } later = {MS_OPTIONS_INIT, 0};
    ms_options options = MS_OPTIONS_INIT;
    options.flags = 1u << 30;
    FAILS(ms_pipe(&reader, &writer, &options), EINVAL);
    options.flags = 0;
    options.wait = 99;
    FAILS(ms_pipe(&reader, &writer, &options), EINVAL);
    options.wait = MS_WAIT_BLOCK;
    options.size = 4;
    FAILS(ms_pipe(&reader, &writer, &options), EINVAL);
    options.size = sizeof options;
    options.capacity = (size_t)4 << 30;
    FAILS(ms_pipe(&reader, &writer, &options), EINVAL);
    later.options.size = sizeof later;
    CHECK(ms_pipe(&reader, &writer, &later.options) == 0);
    close_pipe();
    later.added = 1;
    FAILS(ms_pipe(&reader, &writer, &later.options), E2BIG);
}

static void options_count(void)
{
    char byte;
    ms_options options = MS_OPTIONS_INIT;
    options.capacity = 5000;
    options.flags = MS_NONBLOCK;
    CHECK(ms_pipe(&reader, &writer, &options) == 0);
    CHECK(ms_capacity(reader) == 8192 && ms_capacity(writer) == 8192);
    FAILS(ms_read(reader, &byte, 1), EAGAIN);
    char page[8192] = {0};
    CHECK(ms_write(writer, page, sizeof page) == 8192);
    FAILS(ms_write(writer, page, 1), EAGAIN);
    CHECK(ms_readable(reader) == 8192 && ms_readable(writer) == 8192);
    FAILS(ms_set_capacity(writer, 4096), EBUSY);
    CHECK(ms_set_capacity(reader, 9000) == 16384);
    CHECK(ms_read(reader, page, sizeof page) == 8192);
    CHECK(ms_set_nonblock(writer, 0) == 0);
    close_pipe();
}

static void vectors_are_read_and_written(void)
{
    char first[3], second[8] = {0};
    struct iovec parts[2] = {{"gra", 3}, {"in", 2}}, rooms[2] = {{first, 3}, {second, 8}};
    open_pipe(0);
    CHECK(ms_writev(writer, parts, 2) == 5);
    CHECK(ms_readv(reader, rooms, 2) == 5);
    CHECK(memcmp(first, "gra", 3) == 0 && strcmp(second, "in") == 0);
    close_pipe();
}

static void stream_ends_and_breaks(void)
{
    char byte = 'x';
    struct iovec pieces[2];
    open_pipe(0);
    CHECK(ms_write(writer, "ab", 2) == 2);
    CHECK(ms_close(writer) == 0);
    CHECK(ms_read(reader, &byte, 1) == 1 && byte == 'a');
    CHECK(ms_peek(reader, pieces, 10) == 1 && *(char *)pieces[0].iov_base == 'b');
    CHECK(ms_consume(reader, 1) == 0);
    CHECK(ms_peek(reader, pieces, 10) == 0 && pieces[0].iov_len == 0);
    CHECK(ms_consume(reader, 0) == 0);
    CHECK(ms_read(reader, &byte, 1) == 0);
    CHECK(ms_close(reader) == 0);

    signal(SIGPIPE, SIG_IGN);
    open_pipe(0);
    CHECK(ms_close(reader) == 0);
    FAILS(ms_write(writer, &byte, 1), EPIPE);
    FAILS(ms_reserve(writer, pieces, 1), EPIPE);
    CHECK(ms_close(writer) == 0);
    signal(SIGPIPE, SIG_DFL);
}

/* With the pipe's own memory, and with a copy. */
static void bytes_are_peeked_and_consumed(uint32_t flags)
{
    char byte;
    struct iovec pieces[2];
    open_pipe(flags);
    CHECK(ms_write(writer, "grain", 5) == 5);
    CHECK(ms_peek(reader, pieces, 3) == 3);
    CHECK(pieces[0].iov_len == 3 && pieces[1].iov_len == 0 && memcmp(pieces[0].iov_base, "gra", 3) == 0);
    FAILS(ms_read(reader, &byte, 1), EBUSY);
    FAILS(ms_copy_to(reader, 1, 1), EBUSY);
    FAILS(ms_set_capacity(reader, 65536), EBUSY);
    FAILS(ms_export(reader), EBUSY);
    FAILS(ms_consume(reader, 4), EINVAL);
    CHECK(ms_consume(reader, 2) == 0);
    FAILS(ms_consume(reader, 1), EINVAL);
    CHECK(ms_read(reader, &byte, 1) == 1 && byte == 'a');
    CHECK(ms_peek(reader, pieces, 10) == 2);
    CHECK(ms_peek(reader, pieces, 10) == 2);
    CHECK(memcmp(pieces[0].iov_base, "in", 2) == 0);
    CHECK(ms_consume(reader, 0) == 0);
    CHECK(ms_readable(reader) == 2);
    CHECK(ms_peek(reader, pieces, 0) == 0);
    /* Closed while bytes are shown. */
    CHECK(ms_peek(reader, pieces, 10) == 2);
    close_pipe();
}

static void room_is_reserved_and_committed(uint32_t flags)
{
    char bytes[16] = {0};
    struct iovec pieces[2];
    open_pipe(flags);
    CHECK(ms_reserve(writer, pieces, 0) == 0);
    CHECK(ms_commit(writer, 0) == 0);
    CHECK(ms_reserve(writer, pieces, 5) == 5 && pieces[0].iov_len == 5);
    memcpy(pieces[0].iov_base, "grain", 5);
    FAILS(ms_write(writer, "x", 1), EBUSY);
    FAILS(ms_copy_from(writer, 0, 1), EBUSY);
    FAILS(ms_set_capacity(writer, 65536), EBUSY);
    FAILS(ms_export(writer), EBUSY);
    FAILS(ms_commit(writer, 6), EINVAL);
    CHECK(ms_readable(reader) == 0);
    CHECK(ms_commit(writer, 4) == 4);
    FAILS(ms_commit(writer, 1), EINVAL);
    /* Reserved again before it was committed: the first is given back. */
    CHECK(ms_reserve(writer, pieces, 7) == 7);
    CHECK(ms_reserve(writer, pieces, 2) == 2);
    memcpy(pieces[0].iov_base, "ny", 2);
    CHECK(ms_commit(writer, 2) == 2);
    CHECK(ms_write(writer, "!", 1) == 1);
    CHECK(ms_read(reader, bytes, sizeof bytes) == 7 && strcmp(bytes, "grainy!") == 0);
    /* The child of a fork does not commit what its parent has reserved; without the pipe's memory it has its own. */
    CHECK(ms_reserve(writer, pieces, 1) == 1);
    *(char *)pieces[0].iov_base = 'p';
    pid_t child = fork();
    if (child == 0) {
        errno = 0;
        ssize_t count = ms_commit(writer, 1);
        _exit(flags & MS_TRUST_PEERS ? count != -1 || errno != EPERM : count != 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(ms_commit(writer, 1) == 1);
    CHECK(ms_readable(reader) == (flags & MS_TRUST_PEERS ? 1 : 2));
    /* Closed while room is reserved. */
    CHECK(ms_reserve(writer, pieces, 9) == 9);
    close_pipe();
}

static void trusted_bytes_are_in_place(void)
{
    struct iovec pieces[2];
    ms_statistics statistics = MS_STATISTICS_INIT;
    open_pipe(MS_TRUST_PEERS);
    CHECK(ms_reserve(writer, pieces, 100) == 100);
    memset(pieces[0].iov_base, 'x', 100);
    CHECK(ms_commit(writer, 100) == 100);
    CHECK(ms_peek(reader, pieces, 100) == 100);
    CHECK(ms_consume(reader, 100) == 0);
    CHECK(ms_stats(writer, &statistics) == 0 && statistics.bytes_in_place == 100 && statistics.bytes == 100);
    CHECK(ms_stats(reader, &statistics) == 0 && statistics.bytes_in_place == 100);
    statistics.size = 8;
    FAILS(ms_stats(reader, &statistics), EINVAL);
    close_pipe();
}

static void readiness_follows_the_bytes(void)
{
    char byte;
    open_pipe(0);
    struct pollfd watched = {.fd = ms_fileno(reader), .events = POLLIN};
    CHECK(watched.fd >= 0 && poll(&watched, 1, 0) == 0);
    CHECK(ms_write(writer, "x", 1) == 1);
    CHECK(poll(&watched, 1, 0) == 1 && watched.revents == POLLIN);
    CHECK(ms_read(reader, &byte, 1) == 1);
    CHECK(poll(&watched, 1, 0) == 0);
    CHECK(ms_close(writer) == 0);
    CHECK(poll(&watched, 1, 0) == 1 && watched.revents == POLLHUP);
    CHECK(ms_close(reader) == 0);
}

static void ends_are_given_away_and_taken_back(void)
{
    char bytes[8] = {0};
    ms_reader *none;
    open_pipe(0);
    CHECK(ms_write(writer, "one", 3) == 3);
    int fd = ms_export(writer);
    CHECK(fd >= 0 && write(fd, "two", 3) == 3);
    FAILS(ms_attach_reader(&none, fd), EBADF);
    FAILS(ms_attach_writer(NULL, fd), EINVAL);
    FAILS(ms_attach_reader(&none, -1), EBADF);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int named = open(path, O_PATH);
    FAILS(ms_attach_writer(&writer, named), EBADF);
    CHECK(close(named) == 0);
    CHECK(fcntl(fd, F_GETFD) >= 0);
    CHECK(ms_attach_writer(&writer, fd) == 0);
    CHECK(ms_write(writer, "3", 1) == 1);
    size_t got = 0;
    while (got < 7) {
        ssize_t count = ms_read(reader, bytes + got, 7 - got);
        CHECK(count > 0);
        got += (size_t)count;
    }
    CHECK(strcmp(bytes, "onetwo3") == 0);
    int null = open("/dev/null", O_RDONLY);
    FAILS(ms_attach_reader(&none, null), EINVAL);
    CHECK(close(null) == 0);
    /* Without trust bytes are read ahead. */
    struct iovec pieces[2];
    CHECK(ms_write(writer, "ab", 2) == 2);
    CHECK(ms_peek(reader, pieces, 2) == 2 && ms_consume(reader, 1) == 0);
    FAILS(ms_export(reader), EBUSY);
    CHECK(ms_read(reader, bytes, 1) == 1 && bytes[0] == 'b');
    fd = ms_export(reader);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(ms_close(writer) == 0);
}

static void fifos_are_opened(const char *directory)
{
    char path[4096], byte;
    snprintf(path, sizeof path, "%s/fifo", directory);
    FAILS(ms_fifo_open(&reader, NULL, path, NULL), ENOENT);
    FAILS(ms_fifo_open(NULL, NULL, path, NULL), EINVAL);
    FAILS(ms_fifo_open(&reader, NULL, NULL, NULL), EINVAL);
    FAILS(ms_fifo_open(&reader, NULL, directory, NULL), EINVAL);
    CHECK(mkfifo(path, 0600) == 0);
    ms_options options = MS_OPTIONS_INIT;
    options.flags = MS_NONBLOCK;
    FAILS(ms_fifo_open(NULL, &writer, path, &options), ENXIO);
    CHECK(ms_fifo_open(&reader, &writer, path, &options) == 0);
    CHECK(ms_write(writer, "x", 1) == 1);
    CHECK(ms_read(reader, &byte, 1) == 1 && byte == 'x');
    FAILS(ms_read(reader, &byte, 1), EAGAIN);
    close_pipe();
    CHECK(unlink(path) == 0);
}

static void handles_are_duplicated(void)
{
    char byte;
    ms_writer *other;
    ms_reader *another;
    open_pipe(0);
    CHECK(ms_dup_writer(writer, &other) == 0 && ms_dup_reader(reader, &another) == 0);
    CHECK(ms_close(writer) == 0);
    CHECK(ms_write(other, "x", 1) == 1);
    CHECK(ms_close(other) == 0);
    CHECK(ms_read(another, &byte, 1) == 1);
    CHECK(ms_read(reader, &byte, 1) == 0);
    CHECK(ms_close(another) == 0 && ms_close(reader) == 0);
}

static void failed_pipe_leaves_no_descriptor(void)
{
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    int lowest = dup(0);
    CHECK(lowest >= 0 && close(lowest) == 0);
    limit = before;
    for (int more = 0; more < 3; more++) {
        limit.rlim_cur = (rlim_t)(lowest + more);
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        FAILS(ms_pipe(&reader, &writer, NULL), EMFILE);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    int next = dup(0);
    CHECK(next == lowest && close(next) == 0);
    open_pipe(0);
    close_pipe();
}

enum { THREADS = 4, RECORDS = 2000, RECORD = 64 };

static void *write_records(void *argument)
{
    char record[RECORD];
    memset(record, *(char *)argument, sizeof record);
    for (int count = 0; count < RECORDS; count++)
        CHECK(ms_write(writer, record, sizeof record) == RECORD);
    return NULL;
}

static void threads_share_a_handle(void)
{
    pthread_t threads[THREADS];
    char letters[THREADS], record[RECORD];
    int counts[THREADS] = {0};
    open_pipe(0);
    for (int thread = 0; thread < THREADS; thread++) {
        letters[thread] = (char)('a' + thread);
        CHECK(pthread_create(&threads[thread], NULL, write_records, &letters[thread]) == 0);
    }
    for (int count = 0; count < THREADS * RECORDS; count++) {
        CHECK(ms_read(reader, record, sizeof record) == RECORD);
        for (int at = 1; at < RECORD; at++)
            CHECK(record[at] == record[0]);
        counts[record[0] - 'a']++;
    }
    for (int thread = 0; thread < THREADS; thread++) {
        CHECK(pthread_join(threads[thread], NULL) == 0);
        CHECK(counts[thread] == RECORDS);
    }
    close_pipe();
}

static void processes_share_a_pipe(void)
{
    enum { BYTES = 3 << 20 };
    static unsigned char bytes[BYTES];
    open_pipe(0);
    pid_t child = fork();
    if (child == 0) {
        ms_close(reader);
        for (size_t at = 0; at < BYTES; at++)
            bytes[at] = (unsigned char)(at * 7 >> 3);
        _exit(ms_write(writer, bytes, BYTES) != BYTES || ms_close(writer) != 0);
    }
    CHECK(ms_close(writer) == 0);
    size_t got = 0;
    for (ssize_t count; (count = ms_read(reader, bytes + got, BYTES - got)) > 0;)
        got += (size_t)count;
    CHECK(got == BYTES);
    for (size_t at = 0; at < BYTES; at++)
        if (bytes[at] != (unsigned char)(at * 7 >> 3))
            CHECK(!"the byte that was written");
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(ms_close(reader) == 0);
}

static void files_are_copied(void)
{
    char bytes[16] = {0};
    FILE *from = tmpfile(), *to = tmpfile();
    CHECK(from && to && fputs("grain", from) >= 0 && fflush(from) == 0 && fseek(from, 0, SEEK_SET) == 0);
    open_pipe(0);
    CHECK(ms_copy_from(writer, fileno(from), 100) == 5);
    CHECK(ms_copy_to(reader, fileno(to), 3) == 3);
    CHECK(ms_copy_to(reader, fileno(to), 2) == 2);
    CHECK(pread(fileno(to), bytes, sizeof bytes, 0) == 5 && strcmp(bytes, "grain") == 0);
    CHECK(ms_write(writer, "x", 1) == 1);
    FAILS(ms_copy_to(reader, 1000000, 1), EBADF);
    close_pipe();
    fclose(from);
    fclose(to);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: contract DIRECTORY\n");
        return 2;
    }
    CHECK(strcmp(ms_version(), MS_VERSION) == 0);
    wrong_arguments_are_errors();
    wrong_options_are_errors();
    options_count();
    vectors_are_read_and_written();
    stream_ends_and_breaks();
    bytes_are_peeked_and_consumed(0);
    bytes_are_peeked_and_consumed(MS_TRUST_PEERS);
    room_is_reserved_and_committed(0);
    room_is_reserved_and_committed(MS_TRUST_PEERS);
    trusted_bytes_are_in_place();
    readiness_follows_the_bytes();
    ends_are_given_away_and_taken_back();
    fifos_are_opened(argv[1]);
    handles_are_duplicated();
    failed_pipe_leaves_no_descriptor();
    threads_share_a_handle();
    processes_share_a_pipe();
    files_are_copied();
    printf("%d checks passed\n", checks);
    return 0;
}
