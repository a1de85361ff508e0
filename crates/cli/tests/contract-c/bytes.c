// Every byte arrives once and in order: 1 byte, 0 bytes, four times the capacity, reads and writes of all sizes.
#include "check.h"
static unsigned char block[100000], got[100000];
static unsigned char at(long i) { return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16)); }
int main(void) {
    int ends[2];
    pair(ends);
    IS(write(ends[1], "x", 1), 1);
    IS(write(ends[1], "x", 0), 0);
    IS(read(ends[0], got, 0), 0);
    IS(waiting(ends[0]), 1);
    IS(read(ends[0], got, sizeof got), 1);
    CHECK(got[0] == 'x');
    long total = 4L * fcntl(ends[0], F_GETPIPE_SZ) + 12345;
    pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        for (long sent = 0, size = 1; sent < total; size = size * 5 % 65521 + 1) {
            if (size > total - sent) size = total - sent;
            for (long i = 0; i < size; i++) block[i] = at(sent + i);
            IS(write(ends[1], block, size), size);
            sent += size;
        }
        _exit(0);
    }
    close(ends[1]);
    long seen = 0;
    for (long size = 1;; size = size * 3 % 40961 + 1) {
        ssize_t n = read(ends[0], got, size);
        CHECK(n >= 0 && n <= size);
        if (n == 0) break;
        for (long i = 0; i < n; i++) CHECK(got[i] == at(seen + i));
        seen += n;
    }
    IS(seen, total);
    passed(writer);
    return 0;
}
