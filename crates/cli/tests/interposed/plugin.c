// Opened with RTLD_DEEPBIND: its `write` is glibc's.
#include <stdio.h>
#include <unistd.h>

void say(int round) {
    char line[80];
    int len = snprintf(line, sizeof line, "the plugin in round %d\n", round);
    if (write(1, line, len) != len) _exit(8);
}
