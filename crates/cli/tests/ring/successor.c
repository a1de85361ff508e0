// Reads so many bytes of its standard input, pauses, and becomes or starts another program there, which counts the rest.
//
//   successor BYTES execvp|fexecve|spawn|spawnp PROGRAM      successor count BYTES
//
// The counter says how many there were in all.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char buffer[65536];

static unsigned long long take(unsigned long long most) {
    unsigned long long taken = 0;
    while (taken < most) {
        ssize_t count = read(0, buffer, sizeof buffer);
        if (count < 0) { perror("read"); exit(3); }
        if (count == 0) break;
        taken += count;
    }
    return taken;
}

int main(int argc, char **argv) {
    if (argc != 3 + (strcmp(argv[1], "count") != 0)) return 2;
    if (!strcmp(argv[1], "count")) {
        printf("%llu\n", strtoull(argv[2], 0, 10) + take(-1ull));
        return 0;
    }
    char taken[32], *next[] = {argv[3], "count", taken, 0}, *how = argv[2];
    snprintf(taken, sizeof taken, "%llu", take(strtoull(argv[1], 0, 10)));
    // The writer fills the pipe meanwhile.
    usleep(20000);
    pid_t child = 0;
    int failure = 0;
    if (!strcmp(how, "execvp")) execvp(argv[3], next);
    if (!strcmp(how, "fexecve")) fexecve(open(argv[3], O_RDONLY | O_CLOEXEC), next, environ);
    if (!strcmp(how, "spawn")) failure = posix_spawn(&child, argv[3], 0, 0, next, environ);
    if (!strcmp(how, "spawnp")) failure = posix_spawnp(&child, argv[3], 0, 0, next, environ);
    int status;
    return failure || child <= 0 || waitpid(child, &status, 0) != child ? 4 : WEXITSTATUS(status);
}
