// close_range and closefrom close ends like any other descriptor: the other side sees it.
#include "check.h"
int main(void) {
    int ends[2];
    char got[10];
    for (int way = 0; way < 4; way++) {
        pair(ends);
        int low = dup2(ends[0], 3), writer = fcntl(ends[1], F_DUPFD, 40);
        IS(low, 3);
        if (ends[0] != 3) close(ends[0]);
        if (ends[1] != 3) close(ends[1]);
        IS(write(writer, "x", 1), 1);
        switch (way) {
        case 0: IS(close_range(10, ~0U, 0), 0); break;
        case 1: closefrom(10); break;
        case 2: IS(close_range(10, ~0U, CLOSE_RANGE_CLOEXEC), 0);
            IS(fcntl(writer, F_GETFD), FD_CLOEXEC);
            IS(write(writer, "y", 1), 1);
            IS(read(3, got, 10), 2);
            IS(write(writer, "x", 1), 1);
            for (int fd = 10; fd < 256; fd++) close(fd);
            break;
        case 3: IS(syscall(SYS_close_range, 10, ~0U, 0), 0); break;
        }
        FAILS(write(writer, "x", 1), EBADF);
        IS(read(3, got, 10), 1);
        IS(read(3, got, 10), 0);
        close(3);
    }
    return 0;
}
