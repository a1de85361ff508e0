// A program that makes some of its system calls with syscall(2) sees the same stream.
#include "check.h"
int main(void) {
    int ends[2];
    char got[20];
    pair(ends);
    IS(write(ends[1], "one", 3), 3);
    IS(syscall(SYS_write, ends[1], "two", 3), 3);
    IS(write(ends[1], "three", 5), 5);
    IS(syscall(SYS_read, ends[0], got, 4), 4);
    IS(read(ends[0], got + 4, 3), 3);
    IS(syscall(SYS_read, ends[0], got + 7, 13), 4);
    CHECK(!memcmp(got, "onetwothree", 11));
    int made[2];
    IS(syscall(SYS_pipe2, made, 0), 0);
    IS(write(made[1], "x", 1), 1);
    IS(syscall(SYS_close, made[1]), 0);
    IS(read(made[0], got, 20), 1);
    IS(read(made[0], got, 20), 0);
    return 0;
}
