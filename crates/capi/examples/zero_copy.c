/* Makes and adds up numbers in the memory of the pipe itself: no byte is copied.
 *
 *     cc zero_copy.c -o zero_copy $(pkg-config --cflags --libs millstream)
 *     ./zero_copy 1000000
 */
#include <errno.h>
#include <millstream.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A power of two: whole numbers never lie across the two pieces of what is reserved or shown. */
enum { WIDTH = sizeof(uint64_t), CHUNK = 64 << 10 };

static void fail(const char *what)
{
    fprintf(stderr, "zero_copy: %s: %s\n", what, ms_strerror(errno));
    exit(1);
}

static void produce(ms_writer *writer, uint64_t count)
{
    for (uint64_t next = 0; next < count;) {
        uint64_t left = (count - next) * WIDTH;
        struct iovec pieces[2];
        ssize_t room = ms_reserve(writer, pieces, left < CHUNK ? (size_t)left : CHUNK);
        if (room < 0)
            fail("reserving");
        size_t filled = 0;
        for (int piece = 0; piece < 2; piece++) {
            uint64_t *numbers = pieces[piece].iov_base;
            for (size_t index = 0; index < pieces[piece].iov_len / WIDTH; index++, filled += WIDTH)
                numbers[index] = next++;
        }
        if (ms_commit(writer, filled) != (ssize_t)filled)
            fail("committing");
    }
}

static uint64_t add_up(ms_reader *reader)
{
    uint64_t sum = 0;
    for (;;) {
        struct iovec pieces[2];
        ssize_t shown = ms_peek(reader, pieces, CHUNK);
        if (shown < 0)
            fail("peeking");
        if (shown == 0)
            return sum;
        for (int piece = 0; piece < 2; piece++) {
            const uint64_t *numbers = pieces[piece].iov_base;
            for (size_t index = 0; index < pieces[piece].iov_len / WIDTH; index++)
                sum += numbers[index];
        }
        if (ms_consume(reader, (size_t)shown) < 0)
            fail("consuming");
    }
}

int main(int argc, char **argv)
{
    uint64_t count = argc == 2 ? strtoull(argv[1], NULL, 10) : 1000000;
    ms_options options = MS_OPTIONS_INIT;
    /* Both processes are of this program, so each may believe the other. */
    options.flags = MS_TRUST_PEERS;
    ms_reader *reader;
    ms_writer *writer;
    if (ms_pipe(&reader, &writer, &options) < 0)
        fail("making a pipe");

    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        ms_close(reader);
        produce(writer, count);
        ms_close(writer);
        return 0;
    }
    ms_close(writer);
    uint64_t sum = add_up(reader);
    ms_statistics statistics = MS_STATISTICS_INIT;
    if (ms_stats(reader, &statistics) < 0)
        fail("asking for statistics");
    printf("sum %llu, %llu bytes, %s\n", (unsigned long long)sum, (unsigned long long)statistics.bytes,
           statistics.bytes_in_place == statistics.bytes ? "all in place" : "not all in place");
    ms_close(reader);
    waitpid(child, NULL, 0);
    return 0;
}
