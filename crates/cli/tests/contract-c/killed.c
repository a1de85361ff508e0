// A writer that is killed counts as closed after exactly what it wrote; a reader that is killed, as gone.
#include "check.h"
int main(void) {
    int ends[2], status;
    static char got[100000];
    for (int round = 0; round < 10; round++) {
        pair(ends);
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            for (;;) write(ends[1], "0123456789", 10);
        }
        close(ends[1]);
        long total = 0, n;
        while (total < round * 50000 && (n = read(ends[0], got, 10)) > 0) total += n;
        kill(child, SIGKILL);
        while ((n = read(ends[0], got, sizeof got)) > 0) {
            for (long i = 0; i < n; i++) CHECK(got[i] == '0' + (total + i) % 10);
            total += n;
        }
        IS(n, 0);
        IS(total % 10, 0);
        waitpid(child, &status, 0);
        IS(WTERMSIG(status), SIGKILL);
        close(ends[0]);
        pair(ends);
        child = fork();
        if (child == 0) {
            close(ends[1]);
            for (;;) read(ends[0], got, 100);
        }
        close(ends[0]);
        signal(SIGPIPE, SIG_IGN);
        pid_t killer = fork();
        if (killer == 0) {
            close(ends[1]);
            usleep(1000 * round);
            kill(child, SIGKILL);
            _exit(0);
        }
        while (write(ends[1], got, 5000) > 0) {}
        CHECK(errno == EPIPE);
        waitpid(child, &status, 0);
        passed(killer);
        close(ends[1]);
    }
    return 0;
}
