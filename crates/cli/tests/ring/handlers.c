// A writer of which the reader is always a little ahead, and a reader with a signal handler that does something once.
//
//   write BYTES      read DO AT
//
// BYTES times a hundred bytes, with pauses, after a mebibyte without. At alarm AT of one every 700 us the handler does DO: leave
// (something that only a pipe of the kernel can carry), read, jump (out of it); with -resumed after it if an interrupted call goes on
// by itself. Each reports how many bytes it had and their sum: the handler's are counted too.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static struct tally { unsigned long long total, sum; } main_tally, handler_tally;
static unsigned char bytes[65536];
static const char *what;
static int at, alarms;
static volatile sig_atomic_t is_reading;
static sigjmp_buf again;

// The handler has its own: it may come while the program is in the middle of counting.
static void count(struct tally *tally, const unsigned char *from, ssize_t len) {
    tally->total += len;
    while (len-- > 0) tally->sum += *from++;
}

static void report(const char *what) {
    fprintf(stderr, "%s %llu %llu\n", what, main_tally.total + handler_tally.total, main_tally.sum + handler_tally.sum);
}

static void on_alarm(int signal) {
    (void)signal;
    if (++alarms != at) return;
    int before = errno;
    if (!strncmp(what, "leave", 5)) {
        close(dup(0));
    } else if (!strncmp(what, "read", 4)) {
        unsigned char own[1000];
        ssize_t done = read(0, own, sizeof own);
        if (done > 0) count(&handler_tally, own, done);
    } else if (is_reading) {
        siglongjmp(again, 1);
    }
    errno = before;
}

static int write_all(int times) {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = i * 7 + (i >> 8);
    for (int i = -16; i < times; i++) {
        const unsigned char *from = i < 0 ? bytes : bytes + i % 1000;
        ssize_t size = i < 0 ? (ssize_t)sizeof bytes : 100;
        if (write(1, from, size) != size) return 3;
        count(&main_tally, from, size);
        if (i >= 0) usleep(20);
    }
    report("wrote");
    return 0;
}

static int read_all(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = strstr(what, "-resumed") ? SA_RESTART : 0};
    struct itimerval every = {{0, 700}, {0, 700}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
    sigsetjmp(again, 1);
    for (;;) {
        is_reading = 1;
        ssize_t done = read(0, bytes, sizeof bytes);
        is_reading = 0;
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return 4;
        if (done == 0) break;
        count(&main_tally, bytes, done);
    }
    report("read");
    return 0;
}

int main(int arguments, char **argument) {
    if (!strcmp(argument[1], "write")) return write_all(atoi(argument[2]));
    what = argument[2];
    at = arguments > 3 ? atoi(argument[3]) : 0;
    return read_all();
}
