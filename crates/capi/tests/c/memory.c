/* Fills pipes until there is no memory for them: to be run where memory is limited. Prints how many bytes they took. */
#define _GNU_SOURCE
#include <errno.h>
#include <millstream.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(condition)                                                                                                     \
    do {                                                                                                                     \
        if (!(condition)) {                                                                                                  \
            fprintf(stderr, "%d: %s (errno %d: %s)\n", __LINE__, #condition, errno, ms_strerror(errno));                     \
            exit(1);                                                                                                         \
        }                                                                                                                    \
    } while (0)

enum { PIECE = 1 << 16, PIPES = 128 };

static struct {
    ms_reader *reader;
    ms_writer *writer;
    size_t written;
} pipes[PIPES];

static unsigned char piece[PIECE], got[PIECE];
static char line[64];

static unsigned char byte_at(size_t pipe, size_t position)
{
    return (unsigned char)((position + pipe) * 2654435761u >> 13);
}

static bool has_no_memory(void)
{
    CHECK(errno == ENOMEM || errno == ENOSPC);
    CHECK(strstr(ms_strerror(errno), "no memory") != NULL);
    return true;
}

/* Whether memory has run out, and the pipe is not full. */
static bool fill(size_t pipe)
{
    for (;;) {
        for (size_t at = 0; at < PIECE; at++)
            piece[at] = byte_at(pipe, pipes[pipe].written + at);
        errno = 0;
        ssize_t count = ms_write(pipes[pipe].writer, piece, PIECE);
        if (count < 0)
            return errno != EAGAIN && has_no_memory();
        CHECK(count > 0);
        pipes[pipe].written += (size_t)count;
    }
}

/* All that was written is there, in order. */
static void empty(size_t pipe)
{
    CHECK(ms_readable(pipes[pipe].reader) == (ssize_t)pipes[pipe].written);
    for (size_t read = 0; read < pipes[pipe].written;) {
        ssize_t count = ms_read(pipes[pipe].reader, got, PIECE);
        CHECK(count > 0);
        for (ssize_t at = 0; at < count; at++, read++)
            CHECK(got[at] == byte_at(pipe, read));
    }
}

static void close_pipe(size_t pipe)
{
    CHECK(ms_close(pipes[pipe].writer) == 0 && ms_close(pipes[pipe].reader) == 0);
}

int main(void)
{
    ms_options options = MS_OPTIONS_INIT;
    options.capacity = 512 << 10;
    options.flags = MS_NONBLOCK;
    /* What the program itself needs is there from here on: only pipes take more. */
    memset(got, 1, sizeof got);
    CHECK(ms_pipe(&pipes[0].reader, &pipes[0].writer, &options) == 0);
    CHECK(!fill(0));
    empty(0);
    close_pipe(0);
    pipes[0].written = 0;
    CHECK(mlockall(MCL_CURRENT) == 0);

    size_t count = 0, bytes = 0;
    for (bool is_out = false; !is_out; bytes += pipes[count - 1].written) {
        CHECK(count < PIPES);
        errno = 0;
        if (ms_pipe(&pipes[count].reader, &pipes[count].writer, &options) < 0) {
            has_no_memory();
            break;
        }
        is_out = fill(count++);
    }
    for (size_t pipe = 0; pipe < count; pipe++)
        empty(pipe);
    for (size_t pipe = 0; pipe < count; pipe++)
        close_pipe(pipe);

    /* Where there is memory again everything goes on. */
    CHECK(ms_pipe(&pipes[0].reader, &pipes[0].writer, &options) == 0);
    CHECK(ms_write(pipes[0].writer, "grain", 5) == 5);
    CHECK(ms_read(pipes[0].reader, got, PIECE) == 5 && memcmp(got, "grain", 5) == 0);
    close_pipe(0);
    snprintf(line, sizeof line, "%zu\n", bytes);
    CHECK(fputs(line, stdout) >= 0 && fflush(stdout) == 0);
    return 0;
}
