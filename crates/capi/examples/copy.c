/* Copies a file between two processes: the parent reads it into a pipe, its child writes what comes out.
 *
 *     cc copy.c -o copy $(pkg-config --cflags --libs millstream)
 *     ./copy FROM TO
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what)
{
    fprintf(stderr, "copy: %s: %s\n", what, ms_strerror(errno));
    exit(1);
}

static void write_file(ms_reader *reader, const char *to)
{
    int file = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0) {
        perror(to);
        exit(1);
    }
    ssize_t count;
    while ((count = ms_copy_to(reader, file, SSIZE_MAX)) > 0)
        continue;
    if (count < 0)
        fail("copying from the pipe");
    if (close(file) < 0) {
        perror(to);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: copy FROM TO\n");
        return 2;
    }
    int file = open(argv[1], O_RDONLY);
    if (file < 0) {
        perror(argv[1]);
        return 1;
    }
    ms_reader *reader;
    ms_writer *writer;
    if (ms_pipe(&reader, &writer, NULL) < 0)
        fail("making a pipe");

    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) {
        /* While any process has a write end open the stream does not end. */
        ms_close(writer);
        write_file(reader, argv[2]);
        ms_close(reader);
        return 0;
    }
    ms_close(reader);
    ssize_t count;
    while ((count = ms_copy_from(writer, file, SSIZE_MAX)) > 0)
        continue;
    if (count < 0)
        fail("copying into the pipe");
    if (ms_close(writer) < 0)
        fail("closing the pipe");

    int status;
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "copy: the writing process failed\n");
        return 1;
    }
    return 0;
}
