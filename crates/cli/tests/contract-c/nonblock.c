// O_NONBLOCK: EAGAIN where a call would sleep, partial counts of large writes, and it belongs to the open description.
#include "check.h"
static char large[4 << 20];
int main(void) {
    int ends[2];
    pair(ends);
    int copy = dup(ends[0]);
    nonblocking(ends[0], 1);
    CHECK(fcntl(copy, F_GETFL) & O_NONBLOCK);
    FAILS(read(copy, large, 1), EAGAIN);
    CHECK(!(fcntl(ends[1], F_GETFL) & O_NONBLOCK));
    nonblocking(ends[1], 1);
    long size = fcntl(ends[1], F_GETPIPE_SZ);
    IS(write(ends[1], large, sizeof large), size);
    FAILS(write(ends[1], large, sizeof large), EAGAIN);
    IS(waiting(copy), size);
    IS(read(ends[0], large, sizeof large), size);
    FAILS(read(ends[0], large, sizeof large), EAGAIN);
    close(ends[1]);
    IS(read(ends[0], large, sizeof large), 0);
    int on = 0;
    IS(ioctl(copy, FIONBIO, &on), 0);
    CHECK(!(fcntl(ends[0], F_GETFL) & O_NONBLOCK));
    return 0;
}
