// The usual edge-triggered loop, read until EAGAIN, sees every byte of a writer that sleeps now and then.
#include "check.h"
int main(void) {
    int ends[2];
    static char got[3000];
    pair(ends);
    pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        static char block[7000];
        for (int i = 1; i <= 700; i++) {
            IS(write(ends[1], block, i * 10), i * 10);
            if (i % 50 == 0) usleep(1000);
        }
        _exit(0);
    }
    close(ends[1]);
    nonblocking(ends[0], 1);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    IS(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
    long total = 0;
    for (int ended = 0; !ended;) {
        IS(epoll_wait(set, &event, 1, -1), 1);
        for (;;) {
            ssize_t n = read(ends[0], got, sizeof got);
            if (n == -1) { IS(errno, EAGAIN); break; }
            if (n == 0) { ended = 1; break; }
            total += n;
        }
    }
    IS(total, 10L * 700 * 701 / 2);
    passed(writer);
    return 0;
}
