// A read gives 0 only after the last writer is gone and all is drained, and then again and again.
#include "check.h"
int main(void) {
    int ends[2], hold[2];
    char got[16];
    pair(ends);
    IS(pipe(hold), 0);
    int copy = dup(ends[1]);
    IS(write(ends[1], "bytes", 5), 5);
    close(ends[1]);
    pid_t child = fork();
    if (child == 0) {
        close(copy + 0);
        close(hold[1]);
        IS(read(hold[0], got, 1), 0);
        _exit(0);
    }
    pid_t holder = fork();
    if (holder == 0) {
        until_asleep(getppid());
        IS(write(copy, "late", 4), 4);
        _exit(0);
    }
    close(copy);
    IS(read(ends[0], got, 3), 3);
    IS(read(ends[0], got, sizeof got), 2);
    IS(read(ends[0], got, sizeof got), 4);
    for (int i = 0; i < 3; i++) IS(read(ends[0], got, sizeof got), 0);
    passed(holder);
    close(hold[1]);
    passed(child);
    return 0;
}
