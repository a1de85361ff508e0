// A write without a reader: SIGPIPE and EPIPE, 0 bytes are no error, and a blocked write tells what it got rid of.
#include "check.h"
static volatile int signals;
static void count(int number) { (void)number; signals++; }
static char large[8 << 20];
int main(void) {
    int ends[2], status;
    pair(ends);
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        until_asleep(getppid());
        read_all(ends[0], large, 5000);
        usleep(20000);
        _exit(0);
    }
    close(ends[0]);
    signal(SIGPIPE, count);
    ssize_t wrote = write(ends[1], large, sizeof large);
    CHECK(wrote >= 5000 && wrote < (ssize_t)sizeof large);
    passed(reader);
    int before = signals;
    FAILS(write(ends[1], "x", 1), EPIPE);
    IS(signals, before + 1);
    IS(write(ends[1], "x", 0), 0);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(ends[1], "x", 1), EPIPE);
    struct iovec parts[2] = {{"a", 1}, {"b", 1}};
    FAILS(writev(ends[1], parts, 2), EPIPE);
    pid_t victim = fork();
    if (victim == 0) {
        signal(SIGPIPE, SIG_DFL);
        write(ends[1], "x", 1);
        _exit(0);
    }
    waitpid(victim, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
    return 0;
}
