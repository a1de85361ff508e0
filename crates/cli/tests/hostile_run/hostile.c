// Two ends of one pipe. The hostile one, once the pipe is in shared memory, scribbles over that memory, goes on using the pipe at times,
// and dies of a timer. Of the other one only that it ends is asked, and that it does not die of a fault.
//
//   hostile writer|reader SEED       victim writer|reader

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEADER = 4096, BLOCK = 4096, WARM = 400 };

static unsigned char block[70000];
static uint64_t state;

static uint64_t word(void) {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static ssize_t use(int writes, size_t size) { return writes ? write(1, block, size) : read(0, block, size); }

// The memory of the pipe, with the room for its words, and their length; 0: it is not in memory.
static unsigned char *memory(size_t *length) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned char *found = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (strstr(line, "memfd:millstream-joined") && sscanf(line, "%lx-%lx", &from, &to) == 2) {
            found = (unsigned char *)from;
            *length = to - from;
        }
    }
    if (maps) fclose(maps);
    return found;
}

static uint64_t value(void) {
    static const uint64_t few[] = {0, 1, 2, 3, 4, 5, 4096, 65536, 262144, 1u << 30, 1u << 31, 3u << 30, UINT32_MAX, 1ull << 63, UINT64_MAX};
    switch (word() % 4) {
    case 0: return word();
    case 1: return word() % (1 << 20);
    case 2: return (1ull << 63) | word() % (1 << 20);
    default: return few[word() % (sizeof few / sizeof *few)];
    }
}

static int hostile(int writes) {
    // A stream first, so that the pipe is in memory.
    for (int i = 0; i < WARM; i++)
        if (use(writes, BLOCK) <= 0) return 1;
    size_t length;
    unsigned char *at = memory(&length);
    if (!at) {
        fprintf(stderr, "kernel\n");
        return 0;
    }
    struct itimerval end = {{0, 0}, {0, 2000 + word() % 30000}};
    setitimer(ITIMER_REAL, &end, 0);
    unsigned used = word() % 3;
    for (;;) {
        switch (word() % 8) {
        case 0:
            for (int i = 0; i < 64; i++) at[word() % length] = word();
            break;
        case 1:
            if (used && use(writes, 1 + word() % sizeof block) <= 0) used = 0;
            break;
        case 2:
            usleep(word() % 500);
            break;
        case 3: {
            uint64_t both = value();
            memcpy(at + word() % (HEADER / 8) * 8, &both, 8);
            break;
        }
        default: {
            uint32_t half = value();
            memcpy(at + word() % (1024 / 4) * 4, &half, 4);
        }
        }
    }
}

static int victim(int writes) {
    // Whatever comes is fine, but a mistake that repeats for ever is an end too.
    for (int failures = 0; failures < 20;) {
        ssize_t moved = use(writes, 1 + word() % sizeof block);
        if (moved == 0) return 0;
        if (moved < 0) failures++;
    }
    return 1;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int writes = !strcmp(words[2], "writer");
    if (!strcmp(words[1], "victim")) return victim(writes);
    state = strtoull(words[3], 0, 10);
    return hostile(writes);
}
