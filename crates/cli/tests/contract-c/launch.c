// Makes a pipe and becomes the program that is named, which inherits both ends as 30 and 31.
#include "check.h"
int main(int count, char **words) {
    int ends[2];
    CHECK(count == 2);
    IS(pipe(ends), 0);
    IS(dup2(ends[0], 30), 30);
    IS(dup2(ends[1], 31), 31);
    close(ends[0]);
    close(ends[1]);
    execv(words[1], words + 1);
    failed(__FILE__, __LINE__, "exec", 0, errno);
}
