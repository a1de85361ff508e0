// Bytes that reach a pipe by ways inside glibc, between bytes that are read and written by name.
//
//   streams WAY [PLUGIN]      a side of a pipeline, or with "popen-" both
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <wchar.h>

static char block[4096];
static char *self;

static void write_blocks(int count) {
    for (int i = 0; i < count; i++)
        if (write(1, block, sizeof block) != sizeof block) _exit(3);
}

// Reads so many bytes of a stream that has more.
static void read_bytes(int fd, long bytes) {
    static char room[65536];
    while (bytes > 0) {
        ssize_t got = read(fd, room, bytes < (long)sizeof room ? bytes : (long)sizeof room);
        if (got <= 0) _exit(4);
        bytes -= got;
    }
}

static FILE *source(void) {
    char command[4200];
    snprintf(command, sizeof command, "exec %s plain", self);
    FILE *stream = popen(command, "r");
    if (!stream) _exit(5);
    return stream;
}

enum { BLOCKS = 10000 };
static const long ALL = (long)BLOCKS * sizeof block;

int main(int count, char **words) {
    self = words[0];
    char *way = words[1];
    memset(block, 'x', sizeof block);
    block[sizeof block - 1] = '\n';
    void (*say)(int) = 0;
    if (!strcmp(way, "deep-out")) {
        void *plugin = dlopen(words[2], RTLD_NOW | RTLD_DEEPBIND);
        if (!plugin || !(say = (void (*)(int))dlsym(plugin, "say"))) return 6;
    }
    if (strstr(way, "-out") || !strcmp(way, "plain"))
        for (int round = 0; round < 10; round++) {
            write_blocks(BLOCKS / 10);
            for (int i = 0; i < 20; i++) {
                if (!strcmp(way, "wide-out")) wprintf(L"line %d of %d, %f\n", i, round, 0.5 * i), fflush(stdout);
                if (!strcmp(way, "dprintf-out")) dprintf(1, "line %d of %d, %f\n", i, round, 0.5 * i);
                if (!strcmp(way, "eventfd-out") && eventfd_write(1, 0x4242424242424242)) return 7;
                if (say) say(round);
            }
        }
    if (!strcmp(way, "wide-in")) {
        read_bytes(0, ALL - 10 * (long)sizeof block);
        static wchar_t line[sizeof block + 1];
        int lines = 0;
        while (fgetws(line, sizeof block + 1, stdin)) lines++;
        printf("%d lines\n", lines);
    }
    if (!strcmp(way, "eventfd-in")) {
        read_bytes(0, ALL - 8);
        eventfd_t last = 0;
        int outcome = eventfd_read(0, &last);
        printf("%d %llx, then %zd\n", outcome, (long long)last, read(0, block, 1));
    }
    if (!strcmp(way, "popen-mixed")) {
        FILE *stream = source();
        setvbuf(stream, 0, _IONBF, 0);
        read_bytes(fileno(stream), ALL - 10 * (long)sizeof block);
        static char line[sizeof block + 1];
        int lines = 0;
        while (fgets(line, sizeof line, stream)) lines++;
        int is_bad = ferror(stream);
        printf("%d lines, %d, %d\n", lines, is_bad, pclose(stream));
    }
    if (!strcmp(way, "popen-closed")) {
        FILE *stream = source();
        int fd = fileno(stream);
        read_bytes(fd, ALL - 10 * (long)sizeof block);
        fclose(stream);
        int other = open("/proc/sys/kernel/ostype", O_RDONLY);
        char text[20] = "";
        ssize_t got = read(other, text, sizeof text - 1);
        printf("%d, %zd: %s", other == fd, got, text);
    }
    return 0;
}
