// vmsplice in and out, mixed with write and read.
#include "check.h"
int main(void) {
    int ends[2];
    static char block[10000], got[20000];
    pair(ends);
    memset(block, 'v', sizeof block);
    struct iovec parts[2] = {{block, 6000}, {block + 6000, 4000}}, out = {got, sizeof got};
    IS(write(ends[1], "before", 6), 6);
    IS(vmsplice(ends[1], parts, 2, 0), 10000);
    IS(write(ends[1], "after", 5), 5);
    IS(waiting(ends[0]), 10011);
    read_all(ends[0], got, 6 + 9000);
    CHECK(!memcmp(got, "before", 6));
    for (int i = 6; i < 9006; i++) CHECK(got[i] == 'v');
    long left = 1005, at = 0;
    while (at < left) {
        out.iov_base = got + at;
        ssize_t n = vmsplice(ends[0], &out, 1, 0);
        CHECK(n > 0);
        at += n;
    }
    IS(at, left);
    CHECK(got[999] == 'v' && !memcmp(got + 1000, "after", 5));
    fill(ends[1]);
    FAILS(vmsplice(ends[1], parts, 1, SPLICE_F_NONBLOCK), EAGAIN);
    int file = memfd_create("file", 0);
    FAILS(vmsplice(file, parts, 1, 0), EBADF);
    return 0;
}
