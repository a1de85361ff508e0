// O_ASYNC with F_SETOWN and F_SETSIG: a signal for bytes, one for the end, with the descriptor in it.
#include "check.h"
int main(void) {
    int ends[2], number = SIGRTMIN + 1;
    pair(ends);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaddset(&set, SIGIO);
    IS(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    IS(fcntl(ends[0], F_SETOWN, getpid()), 0);
    IS(fcntl(ends[0], F_GETOWN), getpid());
    IS(fcntl(ends[0], F_SETSIG, number), 0);
    IS(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK), 0);
    CHECK(fcntl(ends[0], F_GETFL) & O_ASYNC);
    siginfo_t info;
    struct timespec none = {0, 0}, long_time = {60, 0};
    FAILS(sigtimedwait(&set, &info, &none), EAGAIN);
    IS(write(ends[1], "x", 1), 1);
    IS(sigtimedwait(&set, &info, &long_time), number);
    IS(info.si_fd, ends[0]);
    CHECK(info.si_band & POLLIN);
    while (sigtimedwait(&set, &info, &none) > 0) {}
    close(ends[1]);
    IS(sigtimedwait(&set, &info, &long_time), number);
    int second[2], on = 1;
    IS(pipe(second), 0);
    IS(fcntl(second[0], F_SETOWN, getpid()), 0);
    IS(ioctl(second[0], FIOASYNC, &on), 0);
    while (sigtimedwait(&set, &info, &none) > 0) {}
    IS(write(second[1], "x", 1), 1);
    IS(sigtimedwait(&set, &info, &long_time), SIGIO);
    return 0;
}
