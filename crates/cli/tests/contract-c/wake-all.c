// Closing the last end wakes everybody who sleeps on the other one.
#include "check.h"
int main(void) {
    int ends[2];
    static char large[8 << 20];
    pid_t sleepers[30];
    for (int way = 0; way < 2; way++) {
        pair(ends);
        for (int i = 0; i < 30; i++) {
            if ((sleepers[i] = fork()) == 0) {
                signal(SIGPIPE, SIG_IGN);
                close(ends[!way]);
                if (way == 0) IS(read(ends[0], large, 1), 0);
                else CHECK(write(ends[1], large, sizeof large) < (ssize_t)sizeof large);
                _exit(0);
            }
        }
        for (int i = 0; i < 30; i++) until_asleep(sleepers[i]);
        close(ends[way]);
        close(ends[!way]);
        for (int i = 0; i < 30; i++) passed(sleepers[i]);
    }
    return 0;
}
