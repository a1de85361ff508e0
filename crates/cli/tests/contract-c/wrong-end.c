// Reading the write end, writing the read end, closed descriptors, and addresses that are none.
#include "check.h"
int main(void) {
    int ends[2];
    char got[10];
    pair(ends);
    FAILS(read(ends[1], got, 1), EBADF);
    FAILS(write(ends[0], got, 1), EBADF);
    FAILS(read(-1, got, 1), EBADF);
    FAILS(write(999, got, 1), EBADF);
    IS(write(ends[1], "kept", 4), 4);
    FAILS(read(ends[0], (void *)8, 4), EFAULT);
    FAILS(write(ends[1], (void *)8, 4), EFAULT);
    IS(read(ends[0], got, 10), 4);
    CHECK(!memcmp(got, "kept", 4));
    struct iovec part = {(void *)8, 1};
    FAILS(writev(ends[1], &part, 1), EFAULT);
    FAILS(pipe((int *)8), EFAULT);
    close(ends[0]);
    FAILS(read(ends[0], got, 1), EBADF);
    FAILS(close(ends[0]), EBADF);
    return 0;
}
