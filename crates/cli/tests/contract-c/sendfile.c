// sendfile into a pipe, and the calls that refuse pipes.
#include "check.h"
#include <sys/sendfile.h>
int main(void) {
    int ends[2], file = memfd_create("file", 0);
    char got[100];
    pair(ends);
    IS(write(file, "0123456789", 10), 10);
    off_t offset = 3;
    IS(sendfile(ends[1], file, &offset, 4), 4);
    IS(offset, 7);
    IS(read(ends[0], got, sizeof got), 4);
    CHECK(!memcmp(got, "3456", 4));
    IS(write(ends[1], "x", 1), 1);
    CHECK(sendfile(file, ends[0], NULL, 1) == -1 && (errno == EINVAL || errno == ESPIPE));
    FAILS(copy_file_range(ends[0], NULL, file, NULL, 1, 0), EINVAL);
    FAILS(copy_file_range(file, &(off64_t){0}, ends[1], NULL, 1, 0), EINVAL);
    IS(waiting(ends[0]), 1);
    return 0;
}
