/* Waits for several pipes at once with epoll(7): three processes count, and the parent prints what each has sent.
 *
 *     cc event_loop.c -o event_loop $(pkg-config --cflags --libs millstream)
 *     ./event_loop
 */
#include <errno.h>
#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 3, NUMBERS = 1000 };

static void fail(const char *what)
{
    fprintf(stderr, "event_loop: %s: %s\n", what, ms_strerror(errno));
    exit(1);
}

static void count(ms_writer *writer, long step)
{
    for (long number = 0; number < NUMBERS; number++) {
        long multiple = number * step;
        /* Up to PIPE_BUF bytes arrive together. */
        if (ms_write(writer, &multiple, sizeof multiple) != (ssize_t)sizeof multiple)
            fail("writing");
    }
}

/* Reads whole numbers until the pipe is empty; returns 0 at the end of the stream. */
static int add_numbers(ms_reader *reader, long *sum)
{
    for (;;) {
        long numbers[512];
        ssize_t bytes = ms_read(reader, numbers, sizeof numbers);
        if (bytes == 0)
            return 0;
        if (bytes < 0 && errno == EAGAIN)
            return 1;
        if (bytes < 0)
            fail("reading");
        for (size_t index = 0; index < (size_t)bytes / sizeof *numbers; index++)
            *sum += numbers[index];
    }
}

int main(void)
{
    ms_reader *readers[CHILDREN];
    long sums[CHILDREN] = {0};
    int loop = epoll_create1(EPOLL_CLOEXEC);
    if (loop < 0)
        fail("epoll_create1");

    for (int child = 0; child < CHILDREN; child++) {
        ms_writer *writer;
        if (ms_pipe(&readers[child], &writer, NULL) < 0)
            fail("making a pipe");
        pid_t process = fork();
        if (process < 0)
            fail("fork");
        if (process == 0) {
            /* Those of the processes before it, too: it has inherited all handles. */
            for (int inherited = 0; inherited <= child; inherited++)
                ms_close(readers[inherited]);
            count(writer, child + 1);
            ms_close(writer);
            return 0;
        }
        ms_close(writer);
        ms_set_nonblock(readers[child], 1);
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (unsigned)child}};
        int watched = ms_fileno(readers[child]);
        if (watched < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, watched, &event) < 0)
            fail("watching a pipe");
    }

    for (int open = CHILDREN; open > 0;) {
        struct epoll_event event;
        if (epoll_wait(loop, &event, 1, -1) < 0)
            fail("epoll_wait");
        unsigned child = event.data.u32;
        if (!add_numbers(readers[child], &sums[child])) {
            printf("process %u sent numbers with the sum %ld\n", child + 1, sums[child]);
            /* First out of the loop: while another process has inherited the descriptor epoll would go on watching it. */
            epoll_ctl(loop, EPOLL_CTL_DEL, ms_fileno(readers[child]), NULL);
            ms_close(readers[child]);
            open--;
        }
    }
    while (wait(NULL) > 0)
        continue;
    return 0;
}
