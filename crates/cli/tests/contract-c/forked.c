// Many processes share both ends: each byte goes to exactly one of them.
#include "check.h"
int main(void) {
    int ends[2], sums[2];
    pair(ends);
    IS(pipe(sums), 0);
    for (int i = 0; i < 8; i++) {
        if (fork()) continue;
        unsigned char block[1000];
        if (i < 4) {
            close(ends[0]);
            for (int k = 0; k < 1000; k++) block[k] = (unsigned char)(i + 1);
            for (int k = 0; k < 200; k++) IS(write(ends[1], block, 1000), 1000);
        } else {
            close(ends[1]);
            long sum = 0, n;
            while ((n = read(ends[0], block, 1 + sum % 999)) > 0) while (n-- > 0) sum += block[n];
            IS(write(sums[1], &sum, sizeof sum), sizeof sum);
        }
        _exit(0);
    }
    close(ends[0]);
    close(ends[1]);
    long total = 0, sum;
    for (int i = 0; i < 4; i++) {
        read_all(sums[0], &sum, sizeof sum);
        total += sum;
    }
    IS(total, 200000L * (1 + 2 + 3 + 4));
    for (int i = 0, status; i < 8; i++) CHECK(wait(&status) > 0 && status == 0);
    return 0;
}
