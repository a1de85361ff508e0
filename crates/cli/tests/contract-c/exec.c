// Ends survive exec with their bytes, those with close-on-exec do not, and a program takes over in mid-stream.
#include "check.h"
int main(int count, char **words) {
    char got[20];
    if (count == 3) {
        int reader = atoi(words[1]), writer = atoi(words[2]);
        IS(read(reader, got, 6), 6);
        CHECK(!memcmp(got, "second", 6));
        FAILS(fcntl(writer, F_GETFD), EBADF);
        IS(read(reader, got, 20), 5);
        IS(read(reader, got, 20), 0);
        return 0;
    }
    int ends[2];
    pair(ends);
    IS(write(ends[1], "first second", 12), 12);
    pid_t child = fork();
    if (child == 0) {
        IS(read(ends[0], got, 6), 6);
        IS(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
        char a[12], b[12];
        snprintf(a, sizeof a, "%d", ends[0]);
        snprintf(b, sizeof b, "%d", ends[1]);
        execl("/proc/self/exe", words[0], a, b, NULL);
        _exit(9);
    }
    usleep(20000);
    IS(write(ends[1], "third", 5), 5);
    close(ends[1]);
    passed(child);
    IS(pipe(ends), 0);
    pid_t shell = fork();
    if (shell == 0) {
        dup2(ends[1], 1);
        execl("/bin/sh", "sh", "-c", "echo one; /bin/echo two; cat /dev/null; exec printf three", NULL);
        _exit(9);
    }
    close(ends[1]);
    read_all(ends[0], got, 13);
    CHECK(!memcmp(got, "one\ntwo\nthree", 13));
    IS(read(ends[0], got, 1), 0);
    passed(shell);
    return 0;
}
