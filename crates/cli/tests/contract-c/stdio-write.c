// stdio on a write end: full, line and no buffer, blocks larger than it, errors of a reader that is gone, dprintf.
#include "check.h"
static char large[300000];
int main(void) {
    int ends[2];
    char got[100];
    pair(ends);
    FILE *out = fdopen(ends[1], "w");
    fprintf(out, "%s %d", "kept back", 1);
    IS(waiting(ends[0]), 0);
    IS(fflush(out), 0);
    IS(waiting(ends[0]), 11);
    IS(setvbuf(out, NULL, _IOLBF, 0), 0);
    fputs("line\npart", out);
    IS(waiting(ends[0]), 11 + 5);
    fflush(out);
    IS(setvbuf(out, NULL, _IONBF, 0), 0);
    fputc('x', out);
    IS(waiting(ends[0]), 11 + 5 + 4 + 1);
    IS(dprintf(ends[1], "%05d", 42), 5);
    IS(read(ends[0], got, 100), 26);
    CHECK(!memcmp(got, "kept back 1line\npartx00042", 26));
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        long total = 0, n;
        while ((n = read(ends[0], large, sizeof large)) > 0) total += n;
        IS(total, 10 * 300000L + 3);
        _exit(0);
    }
    close(ends[0]);
    for (int i = 0; i < 10; i++) IS(fwrite(large, 1, sizeof large, out), sizeof large);
    fputs("end", out);
    IS(fclose(out), 0);
    passed(reader);
    IS(pipe(ends), 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    out = fdopen(ends[1], "w");
    fputs("nobody reads this", out);
    FAILS(fflush(out), EPIPE);
    CHECK(ferror(out));
    return 0;
}
