// select and pselect on both ends, ends that are not ready stay out of the sets, and the end of stream is readable.
#include "check.h"
static int ready(int reader, int writer) {
    fd_set in, out;
    struct timeval none = {0, 0};
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(reader, &in);
    if (writer >= 0) FD_SET(writer, &out);
    int top = reader > writer ? reader : writer, count = select(top + 1, &in, &out, NULL, &none);
    CHECK(count >= 0);
    int result = (FD_ISSET(reader, &in) ? 1 : 0) | (writer >= 0 && FD_ISSET(writer, &out) ? 2 : 0);
    IS(count, (result & 1) + (result >> 1));
    fd_set again;
    FD_ZERO(&again);
    FD_SET(reader, &again);
    struct timespec nothing = {0, 0};
    IS(pselect(reader + 1, &again, NULL, NULL, &nothing, NULL), result & 1);
    return result;
}
int main(void) {
    int ends[2];
    pair(ends);
    IS(ready(ends[0], ends[1]), 2);
    IS(write(ends[1], "x", 1), 1);
    IS(ready(ends[0], ends[1]), 3);
    fill(ends[1]);
    IS(ready(ends[0], ends[1]), 1);
    close(ends[1]);
    static char got[65536];
    while (read(ends[0], got, sizeof got) > 0) {}
    IS(ready(ends[0], -1), 1);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[1], &set);
    struct timeval none = {0, 0};
    FAILS(select(ends[1] + 1, &set, NULL, NULL, &none), EBADF);
    return 0;
}
