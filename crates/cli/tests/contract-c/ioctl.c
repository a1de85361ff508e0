// FIONREAD on both ends, and what is not for pipes.
#include "check.h"
#include <termios.h>
int main(void) {
    int ends[2], status;
    char got[10];
    pair(ends);
    for (int i = 0; i < 10; i++) {
        IS(waiting(ends[0]), i * 3);
        IS(waiting(ends[1]), i * 3);
        IS(write(ends[1], "abc", 3), 3);
    }
    IS(read(ends[0], got, 10), 10);
    IS(waiting(ends[0]), 20);
    struct termios terminal;
    FAILS(tcgetattr(ends[0], &terminal), ENOTTY);
    IS(isatty(ends[1]), 0);
    FAILS(ioctl(ends[0], TIOCGWINSZ, &status), ENOTTY);
    return 0;
}
