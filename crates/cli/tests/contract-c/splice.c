// splice between pipes and files, how much it moves, and its errors.
#include "check.h"
int main(void) {
    int a[2], b[2], file = memfd_create("file", 0);
    char got[100];
    pair(a);
    IS(pipe(b), 0);
    IS(write(file, "0123456789", 10), 10);
    off_t offset = 2;
    IS(splice(file, &offset, a[1], NULL, 5, 0), 5);
    IS(offset, 7);
    IS(waiting(a[0]), 5);
    IS(splice(a[0], NULL, b[1], NULL, 3, 0), 3);
    IS(read(b[0], got, sizeof got), 3);
    CHECK(!memcmp(got, "234", 3));
    offset = 0;
    IS(splice(a[0], NULL, file, &offset, 100, 0), 2);
    IS(pread(file, got, 3, 0), 3);
    CHECK(!memcmp(got, "562", 3));
    FAILS(splice(a[0], NULL, b[1], NULL, 10, SPLICE_F_NONBLOCK), EAGAIN);
    FAILS(splice(a[0], &offset, b[1], NULL, 10, 0), ESPIPE);
    FAILS(splice(a[1], NULL, b[1], NULL, 10, 0), EBADF);
    FAILS(splice(a[0], NULL, a[1], NULL, 10, 0), EINVAL);
    FAILS(splice(file, NULL, file, NULL, 10, 0), EINVAL);
    IS(splice(a[0], NULL, b[1], NULL, 0, 0), 0);
    fill(b[1]);
    IS(write(a[1], "more", 4), 4);
    FAILS(splice(a[0], NULL, b[1], NULL, 4, SPLICE_F_NONBLOCK), EAGAIN);
    IS(waiting(a[0]), 4);
    close(a[1]);
    close(b[0]);
    signal(SIGPIPE, SIG_IGN);
    FAILS(splice(a[0], NULL, b[1], NULL, 4, 0), EPIPE);
    IS(read(a[0], got, 10), 4);
    IS(splice(a[0], NULL, file, NULL, 4, 0), 0);
    return 0;
}
