// epoll: level, edge (each write is one), one shot, both ends in one set, HUP and ERR.
#include "check.h"
static int set;
static int events(int limit_ms) {
    struct epoll_event found[4] = {0};
    int count = epoll_wait(set, found, 4, limit_ms);
    CHECK(count >= 0);
    int all = 0;
    for (int i = 0; i < count; i++) all |= found[i].events;
    return all;
}
static void change(int how, int fd, unsigned wanted) {
    struct epoll_event event = {.events = wanted, .data.fd = fd};
    IS(epoll_ctl(set, how, fd, &event), 0);
}
int main(void) {
    int ends[2];
    char got[100];
    pair(ends);
    set = epoll_create1(EPOLL_CLOEXEC);
    change(EPOLL_CTL_ADD, ends[0], EPOLLIN);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN}), EEXIST);
    IS(events(0), 0);
    IS(write(ends[1], "ab", 2), 2);
    IS(events(0), EPOLLIN);
    IS(events(0), EPOLLIN);
    change(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLET);
    IS(events(0), EPOLLIN);
    IS(events(0), 0);
    for (int i = 0; i < 3; i++) {
        IS(write(ends[1], "c", 1), 1);
        IS(events(0), EPOLLIN);
        IS(events(0), 0);
    }
    IS(read(ends[0], got, sizeof got), 5);
    IS(events(0), 0);
    change(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT);
    IS(write(ends[1], "d", 1), 1);
    IS(events(0), EPOLLIN);
    IS(write(ends[1], "e", 1), 1);
    IS(events(0), 0);
    change(EPOLL_CTL_DEL, ends[0], 0);
    change(EPOLL_CTL_ADD, ends[1], EPOLLOUT);
    IS(events(0), EPOLLOUT);
    fill(ends[1]);
    IS(events(0), 0);
    change(EPOLL_CTL_ADD, ends[0], EPOLLIN);
    IS(events(0), EPOLLIN);
    nonblocking(ends[0], 1);
    static char large[65536];
    while (read(ends[0], large, sizeof large) > 0) {}
    IS(events(-1), EPOLLOUT);
    close(ends[0]);
    IS(events(0), EPOLLOUT | EPOLLERR);
    int second[2];
    IS(pipe(second), 0);
    close(ends[1]);
    change(EPOLL_CTL_ADD, second[0], EPOLLIN | EPOLLET);
    close(second[1]);
    IS(events(0), EPOLLHUP);
    return 0;
}
