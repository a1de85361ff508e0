// stdio on a read end: characters, lines, getline, blocks, every kind of buffer, errors, and what is left for read.
#include "check.h"
int main(void) {
    int ends[2];
    pair(ends);
    pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        FILE *out = fdopen(ends[1], "w");
        fputs("first line\nsecond", out);
        fflush(out);
        usleep(10000);
        fputs(" line\n", out);
        for (int i = 0; i < 50000; i++) fprintf(out, "%d\n", i);
        fputs("no newline", out);
        fclose(out);
        _exit(0);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    char line[100], *grown = NULL;
    size_t room = 0;
    IS(fgetc(in), 'f');
    IS(ungetc('F', in), 'F');
    CHECK(fgets(line, sizeof line, in) && !strcmp(line, "First line\n"));
    IS(getline(&grown, &room, in), 12);
    CHECK(!strcmp(grown, "second line\n"));
    long sum = 0;
    int number;
    for (int i = 0; i < 50000; i++) {
        IS(fscanf(in, "%d", &number), 1);
        sum += number;
    }
    IS(sum, 49999L * 50000 / 2);
    IS(fgetc(in), '\n');
    IS(fread(line, 1, sizeof line, in), 10);
    CHECK(feof(in) && !ferror(in));
    IS(fgetc(in), EOF);
    FAILS(fseek(in, 0, SEEK_SET), ESPIPE);
    FAILS(ftell(in), ESPIPE);
    fclose(in);
    passed(writer);
    IS(pipe(ends), 0);
    IS(write(ends[1], "abcdef", 6), 6);
    in = fdopen(ends[0], "r");
    IS(setvbuf(in, NULL, _IONBF, 0), 0);
    IS(fgetc(in), 'a');
    IS(read(ends[0], line, 2), 2);
    CHECK(!memcmp(line, "bc", 2) && fgetc(in) == 'd');
    nonblocking(ends[0], 1);
    IS(fread(line, 1, 10, in), 2);
    CHECK(ferror(in) && errno == EAGAIN);
    return 0;
}
