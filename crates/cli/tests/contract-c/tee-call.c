// tee copies what waits and takes nothing.
#include "check.h"
int main(void) {
    int a[2], b[2];
    char got[100];
    pair(a);
    IS(pipe(b), 0);
    FAILS(tee(a[0], b[1], 10, SPLICE_F_NONBLOCK), EAGAIN);
    IS(write(a[1], "hello", 5), 5);
    IS(tee(a[0], b[1], 3, 0), 3);
    IS(tee(a[0], b[1], 100, 0), 5);
    IS(waiting(a[0]), 5);
    IS(read(b[0], got, sizeof got), 8);
    CHECK(!memcmp(got, "helhello", 8));
    IS(read(a[0], got, sizeof got), 5);
    FAILS(tee(a[0], a[1], 10, 0), EINVAL);
    FAILS(tee(a[1], b[1], 10, 0), EBADF);
    int file = memfd_create("file", 0);
    FAILS(tee(file, b[1], 10, 0), EINVAL);
    close(a[1]);
    IS(tee(a[0], b[1], 10, 0), 0);
    return 0;
}
