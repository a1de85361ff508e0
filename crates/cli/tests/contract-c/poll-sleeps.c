// A sleeping poll, select and epoll_wait wake for bytes, for space, and for the end; time limits hold without events.
#include "check.h"
static char got[PIPE_BUF];
static pid_t soon(void (*what)(int[2]), int ends[2]) {
    pid_t child = fork();
    if (child == 0) {
        until_asleep(getppid());
        what(ends);
        _exit(0);
    }
    return child;
}
static void write_one(int ends[2]) { IS(write(ends[1], "x", 1), 1); }
static void read_page(int ends[2]) { read_all(ends[0], got, PIPE_BUF); }
static void nothing(int ends[2]) { (void)ends; }
int main(void) {
    int ends[2];
    pair(ends);
    struct pollfd in = {ends[0], POLLIN, 0}, space = {ends[1], POLLOUT, 0};
    IS(poll(&in, 1, 20), 0);
    pid_t child = soon(write_one, ends);
    IS(poll(&in, 1, -1), 1);
    passed(child);
    IS(read(ends[0], got, 10), 1);
    fill(ends[1]);
    IS(poll(&space, 1, 10), 0);
    child = soon(read_page, ends);
    IS(poll(&space, 1, 60000), 1);
    passed(child);
    nonblocking(ends[0], 1);
    while (read(ends[0], got, sizeof got) > 0) {}
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    child = soon(write_one, ends);
    IS(select(ends[0] + 1, &set, NULL, NULL, NULL), 1);
    passed(child);
    IS(read(ends[0], got, 10), 1);
    child = soon(nothing, ends);
    close(ends[1]);
    IS(poll(&in, 1, -1), 1);
    IS(in.revents, POLLHUP);
    passed(child);
    return 0;
}
