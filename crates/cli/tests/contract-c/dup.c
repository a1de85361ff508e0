// dup, dup2, dup3 and F_DUPFD: one stream, and an end is closed only with its last copy.
#include "check.h"
int main(void) {
    int ends[2], other[2];
    char got[10];
    pair(ends);
    int a = dup(ends[1]), b = fcntl(ends[1], F_DUPFD, 50), c = fcntl(ends[1], F_DUPFD_CLOEXEC, 50);
    CHECK(b >= 50 && c > b && fcntl(c, F_GETFD) == FD_CLOEXEC && fcntl(b, F_GETFD) == 0);
    IS(dup2(ends[1], 70), 70);
    IS(dup3(ends[1], 71, O_CLOEXEC), 71);
    IS(dup2(70, 70), 70);
    FAILS(dup3(70, 70, 0), EINVAL);
    int all[] = {ends[1], a, b, c, 70, 71};
    for (int i = 0; i < 6; i++) IS(write(all[i], "x", 1), 1);
    IS(read(ends[0], got, 10), 6);
    for (int i = 0; i < 5; i++) close(all[i]);
    nonblocking(ends[0], 1);
    FAILS(read(ends[0], got, 1), EAGAIN);
    IS(pipe(other), 0);
    IS(dup2(other[0], 71), 71);
    IS(read(ends[0], got, 1), 0);
    IS(write(other[1], "other", 5), 5);
    IS(read(71, got, 10), 5);
    IS(dup2(other[1], ends[0]), ends[0]);
    FAILS(read(ends[0], got, 1), EBADF);
    IS(write(ends[0], "y", 1), 1);
    IS(read(71, got, 10), 1);
    return 0;
}
