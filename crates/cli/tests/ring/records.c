// A writer of records, each in one write, and a reader that asks for many at a time and must get whole ones.
//
//   write LEAVES      read LEAVES
//
// 2000 records of 32 bytes, with pauses, so that the reader sleeps before each. With LEAVES 1 this side does something, after 1000,
// that only a pipe of the kernel can carry: the reader in a signal handler that interrupts its sleep.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { RECORDS = 2000, SIZE = 32 };

static void leave(int signal) {
    (void)signal;
    close(dup(0));
}

static int write_all(int leaves) {
    char record[SIZE];
    for (int i = 0; i < RECORDS; i++) {
        memset(record, i, SIZE);
        if (leaves && i == RECORDS / 2) leave(0);
        usleep(i % 100 ? 50 : 3000);
        if (write(1, record, SIZE) != SIZE) return 3;
    }
    return 0;
}

static int read_all(int leaves) {
    char records[100 * SIZE];
    int number = 0;
    struct sigaction action = {.sa_handler = leave, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    for (ssize_t done; (done = read(0, records, sizeof records)) != 0;) {
        if (done < 0 || done % SIZE) {
            fprintf(stderr, "read %zd bytes before record %d\n", done, number);
            return 4;
        }
        for (ssize_t at = 0; at < done; at++)
            if (records[at] != (char)(number + at / SIZE)) return 5;
        int before = number;
        number += done / SIZE;
        // The next record but some is preceded by a long pause, in which the alarm comes.
        if (leaves && before < RECORDS / 2 && number >= RECORDS / 2) {
            struct itimerval once = {{0, 0}, {0, 1500}};
            setitimer(ITIMER_REAL, &once, 0);
        }
    }
    fprintf(stderr, "%d records\n", number);
    return 0;
}

int main(int arguments, char **argument) {
    if (arguments < 3) return 2;
    int leaves = atoi(argument[2]);
    return strcmp(argument[1], "write") ? read_all(leaves) : write_all(leaves);
}
