/* One writer, three processes that each read everything: one adds up the numbers, one finds the largest, one counts them.
 *
 *     cc broadcast.c -o broadcast $(pkg-config --cflags --libs millstream)
 *     ./broadcast
 */
#include <errno.h>
#include <millstream.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READERS = 3, NUMBERS = 200000 };

static void fail(const char *what)
{
    fprintf(stderr, "broadcast: %s: %s\n", what, ms_strerror(errno));
    exit(1);
}

static void use_numbers(ms_reader *reader, int way)
{
    static const char *const says[READERS] = {"sum", "largest", "count"};
    uint64_t result = 0, number;
    char *into = (char *)&number;
    size_t had = 0;
    ssize_t count;
    while ((count = ms_read(reader, into + had, sizeof number - had)) > 0) {
        had += (size_t)count;
        if (had < sizeof number)
            continue;
        had = 0;
        if (way == 0)
            result += number;
        else if (way == 1)
            result = number > result ? number : result;
        else
            result++;
    }
    if (count < 0)
        fail("reading");
    printf("%s %llu\n", says[way], (unsigned long long)result);
    fflush(stdout);
}

int main(void)
{
    ms_writer *writer;
    ms_reader *readers[READERS];
    if (ms_broadcast(&writer, readers, READERS, NULL) < 0)
        fail("making a broadcast");
    for (int child = 0; child < READERS; child++) {
        pid_t id = fork();
        if (id < 0) {
            perror("fork");
            return 1;
        }
        if (id == 0) { /* has one reader, and no other end */
            ms_close(writer);
            for (int other = 0; other < READERS; other++)
                if (other != child)
                    ms_close(readers[other]);
            use_numbers(readers[child], child);
            ms_close(readers[child]);
            _exit(0);
        }
    }
    for (int child = 0; child < READERS; child++)
        ms_close(readers[child]);
    for (uint64_t number = 0; number < NUMBERS; number += 1000) {
        uint64_t some[1000];
        for (int index = 0; index < 1000; index++)
            some[index] = number + (uint64_t)index;
        if (ms_write(writer, some, sizeof some) != (ssize_t)sizeof some)
            fail("writing");
    }
    ms_close(writer);
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}
