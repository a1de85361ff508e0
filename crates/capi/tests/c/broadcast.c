/* What the functions of a broadcast promise, checked from C. Prints how many checks there were. */
#include <errno.h>
#include <millstream.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long checks;

#define CHECK(condition) \
    do { \
        checks++; \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno, ms_strerror(errno)); \
            exit(1); \
        } \
    } while (0)
#define FAILS(call, number) CHECK((errno = 0, (call) == -1) && errno == (number))

static unsigned char byte_at(size_t position)
{
    return (unsigned char)((position * 2654435761u) >> 13);
}

static void check_stream(ms_reader *reader, size_t length)
{
    unsigned char buffer[3001];
    size_t position = 0;
    ssize_t count;
    while ((count = ms_read(reader, buffer, 1 + position % sizeof buffer)) > 0)
        for (ssize_t index = 0; index < count; index++, position++)
            CHECK(buffer[index] == byte_at(position));
    CHECK(count == 0 && position == length);
}

static void write_stream(ms_writer *writer, size_t length)
{
    unsigned char buffer[7001];
    for (size_t position = 0, count; position < length; position += count) {
        count = 1 + position % sizeof buffer;
        count = count < length - position ? count : length - position;
        for (size_t index = 0; index < count; index++)
            buffer[index] = byte_at(position + index);
        CHECK(ms_write(writer, buffer, count) == (ssize_t)count);
    }
}

struct reading {
    ms_reader *reader;
    size_t length;
};

static void *read_in_thread(void *argument)
{
    struct reading *reading = argument;
    check_stream(reading->reader, reading->length);
    return NULL;
}

static void readers_in_processes_see_everything(size_t readers, size_t length)
{
    ms_writer *writer;
    ms_reader *ends[8];
    CHECK(ms_broadcast(&writer, ends, readers, NULL) == 0);
    for (size_t child = 0; child < readers; child++)
        if (fork() == 0) {
            ms_close(writer);
            for (size_t other = 0; other < readers; other++)
                if (other != child)
                    ms_close(ends[other]);
            check_stream(ends[child], length);
            ms_close(ends[child]);
            _exit(0);
        }
    for (size_t child = 0; child < readers; child++)
        CHECK(ms_close(ends[child]) == 0);
    write_stream(writer, length);
    CHECK(ms_close(writer) == 0);
    int status;
    while (wait(&status) > 0)
        CHECK(status == 0);
}

static void slow_and_lossy_readers(void)
{
    ms_options options = MS_OPTIONS_INIT;
    ms_writer *writer;
    ms_reader *ends[2];
    char buffer[5000] = {0};
    uint64_t lost = 1;
    options.capacity = 4096;
    options.flags = MS_NONBLOCK;
    CHECK(ms_broadcast(&writer, ends, 2, &options) == 0);
    CHECK(ms_capacity(writer) == 4096 && ms_capacity(ends[1]) == 4096 && ms_reader_count(writer) == 2);
    CHECK(ms_write(writer, buffer, 4096) == 4096 && ms_readable(ends[0]) == 4096);
    CHECK(ms_read(ends[0], buffer, 5000) == 4096);
    FAILS(ms_read(ends[0], buffer, 1), EAGAIN);
    FAILS(ms_write(writer, buffer, 1), EAGAIN);
    CHECK(ms_close(ends[1]) == 0 && ms_write(writer, buffer, 1) == 1 && ms_reader_count(writer) == 1);
    CHECK(ms_add_reader(writer, &ends[1]) == 0 && ms_write(writer, "late", 4) == 4);
    CHECK(ms_read(ends[1], buffer, 5000) == 4 && memcmp(buffer, "late", 4) == 0);
    CHECK(ms_close(ends[0]) == 0 && ms_close(ends[1]) == 0);
    FAILS(ms_write(writer, buffer, 1), EPIPE);
    CHECK(ms_close(writer) == 0);

    options.flags = MS_LOSSY;
    CHECK(ms_broadcast(&writer, ends, 2, &options) == 0);
    for (int turn = 0; turn < 10; turn++) {
        struct iovec pieces[2] = {{buffer, 1000}, {buffer + 1000, 500}};
        CHECK(ms_writev(writer, pieces, 2) == 1500);
        CHECK(ms_readv(ends[0], pieces, 2) == 1500);
    }
    FAILS(ms_read(ends[1], buffer, 5000), ENOBUFS);
    CHECK(ms_lost(ends[1], &lost) == 0 && lost == 15000);
    CHECK(ms_lost(ends[0], &lost) == 0 && lost == 0);
    CHECK(ms_write(writer, "and on", 6) == 6 && ms_read(ends[1], buffer, 5000) == 6);
    ms_statistics statistics = MS_STATISTICS_INIT;
    CHECK(ms_stats(writer, &statistics) == 0 && statistics.bytes == 15006);
    CHECK(ms_close(writer) == 0 && ms_close(ends[0]) == 0);
    CHECK(ms_read(ends[1], buffer, 1) == 0 && ms_close(ends[1]) == 0);
}

static void watched_and_exported_readers(void)
{
    ms_writer *writer;
    ms_reader *ends[2], *back;
    char buffer[10];
    CHECK(ms_broadcast(&writer, ends, 2, NULL) == 0);
    CHECK(ms_set_nonblock(ends[0], 1) == 0);
    struct pollfd polled = {ms_fileno(ends[0]), POLLIN, 0};
    CHECK(poll(&polled, 1, 0) == 0);
    CHECK(ms_write(writer, "grain", 5) == 5 && poll(&polled, 1, 10000) == 1);
    CHECK(ms_read(ends[0], buffer, 10) == 5);
    FAILS(ms_read(ends[0], buffer, 10), EAGAIN);
    CHECK(poll(&polled, 1, 0) == 0);
    int fd = ms_export(ends[1]);
    CHECK(fd >= 0);
    CHECK(ms_attach_broadcast(&back, fd) == 0 && ms_read(back, buffer, 10) == 5);
    FAILS(ms_export(writer), EOPNOTSUPP);
    CHECK(ms_close(writer) == 0 && ms_read(back, buffer, 10) == 0);
    CHECK(ms_close(back) == 0 && ms_close(ends[0]) == 0);
}

static void wrong_calls_fail(void)
{
    ms_options options = MS_OPTIONS_INIT;
    ms_writer *writer, *pipe_writer;
    ms_reader *ends[64], *reader;
    uint64_t lost;
    int fds[2];
    FAILS(ms_broadcast(&writer, ends, 0, NULL), EINVAL);
    FAILS(ms_broadcast(&writer, ends, 65, NULL), EINVAL);
    FAILS(ms_broadcast(NULL, ends, 1, NULL), EINVAL);
    options.flags = MS_TRUST_PEERS;
    FAILS(ms_broadcast(&writer, ends, 1, &options), EINVAL);
    options.flags = MS_LOSSY;
    FAILS(ms_pipe(&reader, &pipe_writer, &options), EINVAL);
    CHECK(ms_broadcast(&writer, ends, 64, NULL) == 0);
    FAILS(ms_add_reader(writer, &reader), EUSERS);
    FAILS(ms_add_reader(NULL, &reader), EBADF);
    FAILS(ms_lost(ends[0], NULL), EINVAL);
    FAILS(ms_lost(NULL, &lost), EBADF);
    FAILS(ms_set_capacity(writer, 8192), EOPNOTSUPP);
    FAILS(ms_fileno(writer), EOPNOTSUPP);
    FAILS(ms_dup_reader(ends[0], &reader), EBADF);
    FAILS(ms_copy_to(ends[0], 1, 1), EBADF);
    FAILS(ms_read((ms_reader *)writer, &lost, 1), EBADF);
    FAILS(ms_write((ms_writer *)ends[0], &lost, 1), EBADF);
    CHECK(pipe(fds) == 0);
    FAILS(ms_attach_broadcast(&reader, fds[1]), EBADF);
    FAILS(ms_attach_broadcast(&reader, fds[0]), EINVAL);
    close(fds[1]);
    CHECK(ms_pipe(&reader, &pipe_writer, NULL) == 0);
    FAILS(ms_reader_count(pipe_writer), EBADF);
    CHECK(ms_close(reader) == 0 && ms_close(pipe_writer) == 0 && ms_close(writer) == 0);
    for (int index = 0; index < 64; index++)
        CHECK(ms_close(ends[index]) == 0);
}

static void killed_reader_frees_its_place(void)
{
    ms_options options = MS_OPTIONS_INIT;
    ms_writer *writer;
    ms_reader *ends[2];
    pthread_t thread;
    options.capacity = 4096;
    CHECK(ms_broadcast(&writer, ends, 2, &options) == 0);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    ms_close(ends[0]);
    struct reading reading = {ends[1], 100000};
    CHECK(pthread_create(&thread, NULL, read_in_thread, &reading) == 0);
    pid_t killer = fork();
    if (killer == 0) {
        ms_close(writer);
        ms_close(ends[1]);
        usleep(50000);
        kill(child, SIGKILL);
        _exit(0);
    }
    write_stream(writer, 100000);
    CHECK(ms_close(writer) == 0 && pthread_join(thread, NULL) == 0 && ms_close(ends[1]) == 0);
    while (wait(NULL) > 0)
        continue;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t readers = 1; readers <= 8; readers++)
        readers_in_processes_see_everything(readers, 300000);
    slow_and_lossy_readers();
    watched_and_exported_readers();
    wrong_calls_fail();
    killed_reader_frees_its_place();
    printf("%lu checks\n", checks);
    return 0;
}
