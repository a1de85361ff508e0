// A signal without SA_RESTART ends a sleeping call: EINTR if nothing moved, else the partial count. With it, it goes on.
#include "check.h"
static volatile int signals;
static void count(int number) { (void)number; signals++; }
static char large[8 << 20];
static void on(int flags) {
    struct sigaction action = {.sa_handler = count, .sa_flags = flags};
    IS(sigaction(SIGUSR1, &action, NULL), 0);
}
static pid_t disturb(int ends[2], int bytes) {
    pid_t child = fork();
    if (child == 0) {
        until_asleep(getppid());
        kill(getppid(), SIGUSR1);
        usleep(20000);
        if (bytes) IS(write(ends[1], large, bytes), bytes);
        _exit(0);
    }
    return child;
}
int main(void) {
    int ends[2];
    pair(ends);
    on(0);
    pid_t child = disturb(ends, 0);
    FAILS(read(ends[0], large, 10), EINTR);
    passed(child);
    struct pollfd poll_it = {ends[0], POLLIN, 0};
    child = disturb(ends, 0);
    FAILS(poll(&poll_it, 1, -1), EINTR);
    passed(child);
    on(SA_RESTART);
    child = disturb(ends, 7);
    IS(read(ends[0], large, 10), 7);
    passed(child);
    on(0);
    child = disturb(ends, 0);
    ssize_t wrote = write(ends[1], large, sizeof large);
    IS(wrote, fcntl(ends[1], F_GETPIPE_SZ));
    passed(child);
    child = disturb(ends, 0);
    FAILS(write(ends[1], large, 10), EINTR);
    passed(child);
    IS(waiting(ends[0]), wrote);
    CHECK(signals == 5);
    return 0;
}
