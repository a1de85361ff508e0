// popen both ways, many at once, with close-on-exec, and what pclose returns.
#include "check.h"
int main(void) {
    char line[100];
    FILE *from = popen("echo said; exit 3", "r");
    CHECK(from && fgets(line, sizeof line, from) && !strcmp(line, "said\n"));
    IS(WEXITSTATUS(pclose(from)), 3);
    FILE *to = popen("read x; test \"$x\" = told", "w");
    CHECK(fputs("told\n", to) >= 0);
    IS(pclose(to), 0);
    FILE *all[10];
    for (int i = 0; i < 10; i++) {
        snprintf(line, sizeof line, "seq 1 20000 | tail -n %d", i + 1);
        CHECK((all[i] = popen(line, "re")) != NULL);
        IS(fcntl(fileno(all[i]), F_GETFD), FD_CLOEXEC);
    }
    for (int i = 9; i >= 0; i--) {
        int lines = 0;
        while (fgets(line, sizeof line, all[i])) lines++;
        IS(lines, i + 1);
        IS(pclose(all[i]), 0);
    }
    to = popen("exec cat >/dev/null; exit 5", "w");
    static char large[500000];
    IS(fwrite(large, 1, sizeof large, to), sizeof large);
    IS(pclose(to), 0);
    from = popen("kill -9 $$", "r");
    IS(WTERMSIG(pclose(from)), 9);
    from = popen("exec yes", "r");
    CHECK(fgets(line, sizeof line, from));
    IS(WTERMSIG(pclose(from)), SIGPIPE);
    CHECK(popen("true", "x") == NULL && errno == EINVAL);
    return 0;
}
