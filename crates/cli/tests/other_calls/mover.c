// mover WAY: everything from its standard input to its output, by splice, sendfile, or readv and writev. With "signals" before the way
// a signal interrupts it every now and then; its handler does nothing, or writes a note on stderr.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static void handle(int signal) { (void)signal; }

static ssize_t by_vector(void) {
    static char room[5][30011];
    struct iovec pieces[5];
    for (int i = 0; i < 5; i++) pieces[i] = (struct iovec){room[i], i == 2 ? 0 : 7001 * (i + 1) % 30011};
    ssize_t got = readv(0, pieces, 5), left = got;
    for (int i = 0; i < 5 && left >= 0; i++) {
        if (left < (ssize_t)pieces[i].iov_len) pieces[i].iov_len = left;
        left -= pieces[i].iov_len;
    }
    for (ssize_t put = 0; put < got;) {
        ssize_t moved = writev(1, pieces, 5);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return -1;
        put += moved;
        for (int i = 0; i < 5 && moved > 0; i++) {
            ssize_t part = moved < (ssize_t)pieces[i].iov_len ? moved : (ssize_t)pieces[i].iov_len;
            pieces[i].iov_base = (char *)pieces[i].iov_base + part;
            pieces[i].iov_len -= part;
            moved -= part;
        }
    }
    return got;
}

int main(int count, char **words) {
    const char *way = words[count - 1];
    if (count > 2) {
        struct sigaction action = {.sa_handler = handle};
        struct itimerval often = {{0, 700}, {0, 700}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &often, 0);
    }
    for (;;) {
        ssize_t moved = !strcmp(way, "splice") ? splice(0, 0, 1, 0, 1 << 20, 0)
            : !strcmp(way, "sendfile")         ? sendfile(1, 0, 0, 1 << 20)
                                               : by_vector();
        if (moved == 0) return 0;
        if (moved < 0 && errno != EINTR) return perror("mover"), 1;
    }
}
