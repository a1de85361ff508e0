// /proc/self/fd/N opens another description of the same pipe, with a direction and flags of its own.
#include "check.h"
static int reopen(int fd, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int opened = open(path, flags);
    CHECK(opened >= 0);
    return opened;
}
int main(void) {
    int ends[2];
    char got[20];
    pair(ends);
    int writer = reopen(ends[0], O_WRONLY), reader = reopen(ends[1], O_RDONLY | O_NONBLOCK);
    IS(write(writer, "one", 3), 3);
    IS(read(reader, got, 20), 3);
    FAILS(read(reader, got, 20), EAGAIN);
    CHECK(!(fcntl(ends[0], F_GETFL) & O_NONBLOCK));
    close(ends[1]);
    FAILS(read(reader, got, 20), EAGAIN);
    IS(write(writer, "two", 3), 3);
    IS(read(ends[0], got, 20), 3);
    close(writer);
    IS(read(ends[0], got, 20), 0);
    int both = reopen(ends[0], O_RDWR);
    FAILS(read(reader, got, 20), EAGAIN);
    IS(write(both, "three", 5), 5);
    IS(read(both, got, 2), 2);
    IS(read(ends[0], got, 20), 3);
    return 0;
}
