// readv and writev: parts of all sizes, empty ones, partial counts, errors, and the kinds with offsets.
#include "check.h"
int main(void) {
    int ends[2];
    char a[3], b[5], c[100], all[] = "hello, vectors";
    pair(ends);
    struct iovec out[3] = {{all, 5}, {all, 0}, {all + 5, 9}}, in[3] = {{a, 3}, {b, 5}, {c, 100}};
    IS(writev(ends[1], out, 3), 14);
    IS(readv(ends[0], in, 3), 14);
    CHECK(!memcmp(a, "hel", 3) && !memcmp(b, "lo, v", 5) && !memcmp(c, "ectors", 6));
    FAILS(preadv(ends[0], in, 3, 0), ESPIPE);
    FAILS(pwritev(ends[1], out, 3, 0), ESPIPE);
    FAILS(writev(ends[1], out, -1), EINVAL);
    FAILS(writev(ends[1], out, 1025), EINVAL);
    IS(writev(ends[1], out, 0), 0);
    IS(pwritev2(ends[1], out, 3, -1, 0), 14);
    IS(preadv2(ends[0], in, 2, -1, 0), 8);
    IS(waiting(ends[0]), 6);
    if (strcmp(getenv("CONTRACT_KIND") ?: "", "fifo")) {
        IS(preadv2(ends[0], in, 3, -1, RWF_NOWAIT), 6);
        FAILS(preadv2(ends[0], in, 3, -1, RWF_NOWAIT), EAGAIN);
    } else {
        FAILS(preadv2(ends[0], in, 3, -1, RWF_NOWAIT), EOPNOTSUPP);
    }
    return 0;
}
