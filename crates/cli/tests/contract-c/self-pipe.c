// Signal handlers write to a pipe, also while the program itself is in the middle of a write or read on it.
#include "check.h"
#include <sys/time.h>
static int ends[2];
static volatile long handled;
static void handler(int number) {
    (void)number;
    int kept = errno;
    if (write(ends[1], "s", 1) == 1) handled++;
    errno = kept;
}
int main(void) {
    static char block[3000], got[10000];
    pair(ends);
    nonblocking(ends[0], 1);
    nonblocking(ends[1], 1);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    IS(sigaction(SIGVTALRM, &action, NULL), 0);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    IS(setitimer(ITIMER_VIRTUAL, &often, NULL), 0);
    memset(block, 'b', sizeof block);
    long own = 0, blocks = 0, signals = 0;
    for (int i = 0; i < 200000 && handled < 20; i++) {
        ssize_t n = write(ends[1], block, 1 + i % 3000);
        if (n > 0) own += n;
        else CHECK(errno == EAGAIN);
        while ((n = read(ends[0], got, sizeof got)) > 0)
            while (n-- > 0) got[n] == 's' ? signals++ : blocks++;
        CHECK(n == -1 && errno == EAGAIN);
    }
    IS(setitimer(ITIMER_VIRTUAL, &never, NULL), 0);
    ssize_t n;
    while ((n = read(ends[0], got, sizeof got)) > 0)
        while (n-- > 0) got[n] == 's' ? signals++ : blocks++;
    IS(blocks, own);
    IS(signals, handled);
    CHECK(handled > 0);
    return 0;
}
