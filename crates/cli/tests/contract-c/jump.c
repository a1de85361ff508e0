// A handler that jumps out of a sleeping read leaves a pipe that works.
#include "check.h"
#include <setjmp.h>
static sigjmp_buf out;
static void jump(int number) { siglongjmp(out, number); }
int main(void) {
    int ends[2];
    char got[10];
    pair(ends);
    signal(SIGUSR1, jump);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            until_asleep(getppid());
            kill(getppid(), SIGUSR1);
            _exit(0);
        }
        if (sigsetjmp(out, 1) == 0) {
            read(ends[0], got, sizeof got);
            CHECK(!"the read came back");
        }
        passed(child);
        IS(write(ends[1], "after", 5), 5);
        IS(read(ends[0], got, sizeof got), 5);
        CHECK(!memcmp(got, "after", 5));
    }
    return 0;
}
