// A side of a pipeline that calls read, write and dup in the way that it is told.
//
//   pointers write BYTES WAY      says "wrote BYTES"
//   pointers read WAY             checks every byte, says "read BYTES"
//
// In the middle of the stream the end is duplicated, and used by its new number from then on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 16384 };

static void *found(const char *way, const char *name, void *called) {
    void *pointer = called;
    if (!strcmp(way, "default")) pointer = dlsym(RTLD_DEFAULT, name);
    if (!strcmp(way, "next")) pointer = dlsym(RTLD_NEXT, name);
    if (!strcmp(way, "handle")) pointer = dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), name);
    if (!strcmp(way, "version")) pointer = dlvsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), name, "GLIBC_2.2.5");
    if (!pointer) fprintf(stderr, "no %s\n", name), _exit(9);
    return pointer;
}

static unsigned char byte_at(long at) {
    return at * 2654435761u >> 24 ^ at;
}

int main(int count, char **words) {
    int is_writer = !strcmp(words[1], "write");
    const char *way = words[count - 1];
    long bytes = is_writer ? atol(words[2]) : 0, at = 0;
    ssize_t (*reads)(int, void *, size_t) = found(way, "read", read);
    ssize_t (*writes)(int, const void *, size_t) = found(way, "write", write);
    int (*dups)(int) = found(way, "dup", dup);
    int fd = is_writer;
    int is_moved = 0;
    static unsigned char block[BLOCK];
    alarm(100);
    for (;;) {
        if (!is_moved && at > 12000000) {
            int other = dups(fd);
            if (other < 0) return 8;
            close(fd);
            fd = other, is_moved = 1;
        }
        if (is_writer) {
            long len = bytes - at < BLOCK ? bytes - at : BLOCK;
            if (len == 0) break;
            for (long i = 0; i < len; i++) block[i] = byte_at(at + i);
            for (long done = 0; done < len;) {
                ssize_t moved = writes(fd, block + done, len - done);
                if (moved <= 0) return 7;
                done += moved;
            }
            at += len;
        } else {
            ssize_t moved = reads(fd, block, BLOCK);
            if (moved < 0) return 6;
            if (moved == 0) break;
            for (long i = 0; i < moved; i++)
                if (block[i] != byte_at(at + i)) fprintf(stderr, "byte %ld is another\n", at + i), _exit(5);
            at += moved;
        }
    }
    fprintf(stderr, is_writer ? "wrote %ld 0\n" : "read %ld\n", at);
    return 0;
}
