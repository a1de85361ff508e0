// poll and ppoll: IN, OUT only where PIPE_BUF bytes are free, HUP and ERR.
#include "check.h"
static int events(int fd, int wanted) {
    struct pollfd one = {fd, wanted, 0};
    int ready = poll(&one, 1, 0);
    CHECK(ready == (one.revents != 0));
    struct timespec none = {0, 0};
    struct pollfd two = {fd, wanted, 0};
    IS(ppoll(&two, 1, &none, NULL), ready);
    IS(two.revents, one.revents);
    return one.revents;
}
int main(void) {
    int ends[2];
    static char got[PIPE_BUF];
    pair(ends);
    IS(events(ends[0], POLLIN), 0);
    IS(events(ends[1], POLLOUT), POLLOUT);
    IS(write(ends[1], "x", 1), 1);
    IS(events(ends[0], POLLIN), POLLIN);
    IS(events(ends[0], 0), 0);
    IS(read(ends[0], got, 1), 1);
    fill(ends[1]);
    IS(events(ends[1], POLLOUT), 0);
    read_all(ends[0], got, PIPE_BUF - 1);
    IS(events(ends[1], POLLOUT), 0);
    read_all(ends[0], got, 1);
    IS(events(ends[1], POLLOUT), POLLOUT);
    nonblocking(ends[1], 1);
    IS(write(ends[1], got, PIPE_BUF), PIPE_BUF);
    nonblocking(ends[1], 0);
    int copy = dup(ends[1]);
    close(ends[1]);
    IS(events(ends[0], POLLIN), POLLIN);
    close(copy);
    IS(events(ends[0], POLLIN), POLLIN | POLLHUP);
    while (read(ends[0], got, sizeof got) > 0) {}
    IS(events(ends[0], POLLIN), POLLHUP);
    int second[2];
    IS(pipe(second), 0);
    close(second[0]);
    IS(events(second[1], POLLOUT), POLLOUT | POLLERR);
    struct pollfd many[3] = {{second[1], POLLOUT, 0}, {-1, POLLIN, 7}, {999, POLLIN, 0}};
    IS(poll(many, 3, 0), 2);
    IS(many[1].revents, 0);
    IS(many[2].revents, POLLNVAL);
    return 0;
}
