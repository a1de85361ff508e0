// Writes of up to PIPE_BUF bytes are whole between any number of writers; non-blocking ones are all or EAGAIN.
#include "check.h"
int main(void) {
    int ends[2];
    static char block[PIPE_BUF], got[PIPE_BUF];
    pair(ends);
    for (int n = 0; n < 4; n++) {
        if (fork() == 0) {
            memset(block, 'a' + n, sizeof block);
            for (int i = 0; i < 200; i++) IS(write(ends[1], block, sizeof block), PIPE_BUF);
            _exit(0);
        }
    }
    for (int i = 0; i < 800; i++) {
        read_all(ends[0], got, sizeof got);
        for (int k = 1; k < PIPE_BUF; k++) CHECK(got[k] == got[0]);
    }
    for (int n = 0; n < 4; n++) {
        int status = -1;
        CHECK(wait(&status) > 0 && status == 0);
    }
    long full = fill(ends[1]);
    IS(full, fcntl(ends[0], F_GETPIPE_SZ));
    nonblocking(ends[1], 1);
    FAILS(write(ends[1], "x", 1), EAGAIN);
    read_all(ends[0], got, PIPE_BUF - 1);
    FAILS(write(ends[1], block, PIPE_BUF), EAGAIN);
    IS(waiting(ends[0]), full - PIPE_BUF + 1);
    read_all(ends[0], got, 1);
    IS(write(ends[1], block, PIPE_BUF), PIPE_BUF);
    FAILS(write(ends[1], block, PIPE_BUF), EAGAIN);
    return 0;
}
