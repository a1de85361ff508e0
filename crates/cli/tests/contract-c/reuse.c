// A number that was an end of a pipe is something else after close, fclose, dup2 and close_range: nothing is mixed up.
#include "check.h"
static int file_at(int wanted) {
    int file = memfd_create("file", 0);
    IS(write(file, "from the file", 13), 13);
    IS(lseek(file, 0, SEEK_SET), 0);
    if (file != wanted) {
        IS(dup2(file, wanted), wanted);
        close(file);
    }
    return wanted;
}
static void is_the_file(int fd) {
    char got[20];
    IS(read(fd, got, 20), 13);
    CHECK(!memcmp(got, "from the file", 13));
    IS(lseek(fd, 0, SEEK_CUR), 13);
    IS(write(fd, "!", 1), 1);
    IS(lseek(fd, 0, SEEK_END), 14);
    close(fd);
}
int main(void) {
    int ends[2];
    for (int way = 0; way < 6; way++) {
        pair(ends);
        IS(write(ends[1], "in the pipe", 11), 11);
        int number = ends[0], writer = ends[1];
        FILE *stream;
        switch (way) {
        case 0: close(number); break;
        case 1: CHECK((stream = fdopen(number, "r")) != NULL && fgetc(stream) == 'i'); fclose(stream); break;
        case 2: break;
        case 3: IS(close_range(number, number, 0), 0); break;
        case 4: syscall(SYS_close, number); break;
        case 5: CHECK((stream = fdopen(number, "r")) != NULL && fgetc(stream) == 'i');
            CHECK((stream = freopen("/dev/null", "r", stream)) != NULL && fgetc(stream) == EOF); fclose(stream); break;
        }
        is_the_file(file_at(number));
        signal(SIGPIPE, SIG_IGN);
        FAILS(write(writer, "x", 1), EPIPE);
        close(writer);
    }
    return 0;
}
