// What a pipe is not: no offsets, no length, no mapping; and what fstat says.
#include "check.h"
#include <sys/mman.h>
#include <sys/statfs.h>
int main(void) {
    int ends[2];
    char got[10];
    struct stat info;
    pair(ends);
    IS(write(ends[1], "stays", 5), 5);
    for (int i = 0; i < 2; i++) {
        FAILS(lseek(ends[i], 0, SEEK_SET), ESPIPE);
        FAILS(lseek(ends[i], 0, SEEK_CUR), ESPIPE);
        FAILS(ftruncate(ends[i], 0), EINVAL);
        FAILS(fsync(ends[i]), EINVAL);
        IS(fstat(ends[i], &info), 0);
        CHECK(S_ISFIFO(info.st_mode));
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, ends[i], 0) == MAP_FAILED);
        FAILS(fchdir(ends[i]), ENOTDIR);
    }
    FAILS(pread(ends[0], got, 1, 0), ESPIPE);
    FAILS(pwrite(ends[1], got, 1, 0), ESPIPE);
    IS(posix_fadvise(ends[0], 0, 0, POSIX_FADV_SEQUENTIAL), ESPIPE);
    IS(read(ends[0], got, 10), 5);
    return 0;
}
