// uprobes LIBRARY HOW OFFSET...: probes at these places of a file, in every process, until its standard input ends.
//
//   stay      set once      flicker   set and taken away again and again
//
// Says "set" once all are. Takes root.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int type_of_uprobes(void) {
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    int type = -1;
    if (!file || fscanf(file, "%d", &type) != 1) exit(77);
    fclose(file);
    return type;
}

static int has_ended(int ms) {
    struct pollfd input = {0, POLLIN, 0};
    char byte;
    return poll(&input, 1, ms) == 1 && read(0, &byte, 1) <= 0;
}

int main(int count, char **words) {
    int type = type_of_uprobes(), flickers = !strcmp(words[2], "flicker"), said = 0, fds[200];
    do {
        int open = 0;
        for (int i = 3; i < count; i++) {
            struct perf_event_attr asked = {.type = type, .size = sizeof asked};
            asked.config1 = (uintptr_t)words[1];
            asked.config2 = strtoull(words[i], 0, 0);
            // A probe is for a CPU, whatever runs there; its breakpoint is in every process.
            fds[open] = syscall(SYS_perf_event_open, &asked, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
            if (fds[open++] < 0) {
                perror("perf_event_open");
                return 1;
            }
        }
        if (!said++) write(1, "set\n", 4);
        if (!flickers) while (!has_ended(-1));
        else usleep(500 + said % 7 * 1000);
        while (open) close(fds[--open]);
    } while (!has_ended(flickers));
    return 0;
}
