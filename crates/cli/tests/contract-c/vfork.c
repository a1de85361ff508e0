// A child of vfork moves ends to its standard descriptors and becomes a program; one that fails leaves all as it was.
#include "check.h"
int main(void) {
    int ends[2], back[2];
    char got[20];
    pair(ends);
    IS(pipe(back), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            dup2(ends[0], 0);
            dup2(back[1], 1);
            close(ends[1]);
            execl("/bin/sh", "sh", "-c", "read x; echo \"<$x>\"", NULL);
            _exit(9);
        }
        IS(write(ends[1], "word\n", 5), 5);
        read_all(back[0], got, 7);
        CHECK(!memcmp(got, "<word>\n", 7));
        passed(child);
        child = vfork();
        if (child == 0) {
            close(ends[0]);
            close(ends[1]);
            execl("/nonexistent", "x", NULL);
            _exit(0);
        }
        passed(child);
    }
    IS(write(ends[1], "still", 5), 5);
    IS(read(ends[0], got, 20), 5);
    return 0;
}
