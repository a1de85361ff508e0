// F_GETPIPE_SZ and F_SETPIPE_SZ: rounding, EBUSY below the content, both ends and copies agree.
#include "check.h"
int main(void) {
    int ends[2];
    static char block[40000], got[40000];
    pair(ends);
    CHECK(fcntl(ends[0], F_GETPIPE_SZ) >= 4096);
    IS(fcntl(ends[1], F_GETPIPE_SZ), fcntl(ends[0], F_GETPIPE_SZ));
    IS(fcntl(ends[1], F_SETPIPE_SZ, 100000), 131072);
    IS(fcntl(ends[0], F_GETPIPE_SZ), 131072);
    IS(fill(ends[1]), 131072);
    FAILS(fcntl(ends[0], F_SETPIPE_SZ, 65536), EBUSY);
    IS(fcntl(ends[0], F_SETPIPE_SZ, 262144), 262144);
    IS(waiting(ends[1]), 131072);
    nonblocking(ends[0], 1);
    while (read(ends[0], got, sizeof got) > 0) {}
    for (int i = 0; i < 40000; i++) block[i] = (char)(i * 31);
    IS(write(ends[1], block, 40000), 40000);
    IS(fcntl(ends[0], F_SETPIPE_SZ, 65536), 65536);
    read_all(ends[0], got, 40000);
    CHECK(!memcmp(got, block, 40000));
    IS(fcntl(ends[0], F_SETPIPE_SZ, 1), 4096);
    IS(fill(ends[1]), 4096);
    CHECK(fcntl(ends[0], F_SETPIPE_SZ, 1U << 31) == -1 && fcntl(ends[0], F_GETPIPE_SZ) == 4096);
    int file = memfd_create("file", 0);
    FAILS(fcntl(file, F_GETPIPE_SZ), EBADF);
    return 0;
}
