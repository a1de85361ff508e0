// The functions that _FORTIFY_SOURCE puts in the place of read, poll and their relatives.
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#pragma GCC optimize("O2")
#include "check.h"
int main(void) {
    int ends[2];
    char got[64];
    volatile size_t size = 10, count = 1;
    pair(ends);
    IS(write(ends[1], "0123456789 a line\n", size + 8), 18);
    IS(read(ends[0], got, size), 10);
    struct pollfd in[2] = {{ends[0], POLLIN, 0}};
    IS(poll(in, count, 0), 1);
    struct timespec none = {0, 0};
    IS(ppoll(in, count, &none, NULL), 1);
    FILE *stream = fdopen(ends[0], "r");
    CHECK(fgets(got, (int)size + 30, stream) && !strcmp(got, " a line\n"));
    IS(write(ends[1], "block", 5), 5);
    IS(fread(got, count, size / 2, stream), 5);
    FILE *out = fdopen(ends[1], "w");
    IS(fprintf(out, "%zu", size), 2);
    fclose(out);
    CHECK(fgets(got, (int)size, stream) && !strcmp(got, "10"));
    fd_set set;
    FD_ZERO(&set);
    volatile int fd = fileno(stream);
    FD_SET(fd, &set);
    CHECK(FD_ISSET(fd, &set));
    return 0;
}
