// How FIFOs are opened: who waits for whom, ENXIO, both directions at once, and writers that come and go.
#include "check.h"
int main(void) {
    char got[10], name[64];
    snprintf(name, sizeof name, "opened-%d", getpid());
    IS(mkfifo(name, 0640), 0);
    FAILS(mkfifo(name, 0640), EEXIST);
    FAILS(open(name, O_WRONLY | O_NONBLOCK), ENXIO);
    int reader = open(name, O_RDONLY | O_NONBLOCK);
    CHECK(reader >= 0);
    IS(read(reader, got, 10), 0);
    struct pollfd poll_it = {reader, POLLIN, 0};
    IS(poll(&poll_it, 1, 0), 0);
    for (int i = 0; i < 3; i++) {
        int writer = open(name, O_WRONLY);
        FAILS(read(reader, got, 10), EAGAIN);
        IS(poll(&poll_it, 1, 0), 0);
        IS(write(writer, "in", 2), 2);
        close(writer);
        IS(poll(&poll_it, 1, 0), 1);
        IS(poll_it.revents, POLLIN | POLLHUP);
        IS(read(reader, got, 10), 2);
        IS(poll(&poll_it, 1, 0), 1);
        IS(poll_it.revents, POLLHUP);
        IS(read(reader, got, 10), 0);
    }
    close(reader);
    pid_t child = fork();
    if (child == 0) {
        int writer = open(name, O_WRONLY);
        IS(write(writer, "met", 3), 3);
        _exit(0);
    }
    reader = open(name, O_RDONLY);
    read_all(reader, got, 3);
    IS(read(reader, got, 10), 0);
    passed(child);
    close(reader);
    int both = open(name, O_RDWR);
    IS(write(both, "both", 4), 4);
    IS(read(both, got, 10), 4);
    IS(unlink(name), 0);
    IS(write(both, "gone", 4), 4);
    IS(read(both, got, 10), 4);
    FAILS(open(name, O_RDONLY | O_NONBLOCK), ENOENT);
    return 0;
}
