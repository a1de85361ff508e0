// Flags of pipe2 and of fcntl: close-on-exec, access modes, and packets (O_DIRECT), which keep their boundaries.
#include "check.h"
int main(void) {
    int ends[2], packets[2];
    char got[100];
    pair(ends);
    IS(fcntl(ends[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    IS(fcntl(ends[1], F_GETFL) & O_ACCMODE, O_WRONLY);
    IS(fcntl(ends[0], F_GETFD), 0);
    IS(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
    IS(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
    IS(pipe2(packets, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);
    IS(fcntl(packets[0], F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(packets[1], F_GETFL) & O_NONBLOCK);
    IS(write(packets[1], "one", 3), 3);
    IS(write(packets[1], "two", 3), 3);
    IS(read(packets[0], got, 2), 2);
    IS(read(packets[0], got, 100), 3);
    CHECK(!memcmp(got, "two", 3));
    FAILS(read(packets[0], got, 100), EAGAIN);
    FAILS(pipe2(packets, 0x10), EINVAL);
    return 0;
}
