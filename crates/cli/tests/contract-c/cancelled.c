// A thread that is cancelled while it sleeps in read, write, readv or poll ends there; the pipe works on.
#include "check.h"
static int ends[2];
static volatile int cleaned;
static volatile pid_t thread_id;
static char large[8 << 20];
static void clean(void *what) { (void)what; cleaned++; }
static void *sleeper(void *how) {
    struct iovec part = {large, sizeof large};
    struct pollfd in = {ends[0], POLLIN, 0};
    pthread_cleanup_push(clean, NULL);
    thread_id = gettid();
    switch (*(char *)how) {
    case 'r': read(ends[0], large, 10); break;
    case 'v': readv(ends[0], &part, 1); break;
    case 'p': poll(&in, 1, -1); break;
    case 'w': write(ends[1], large, sizeof large); break;
    }
    pthread_cleanup_pop(0);
    return NULL;
}
static void cancel(char *how) {
    pthread_t thread;
    void *result;
    int before = cleaned;
    thread_id = 0;
    IS(pthread_create(&thread, NULL, sleeper, how), 0);
    while (!thread_id) usleep(100);
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
    for (;;) {
        FILE *file = fopen(path, "r");
        CHECK(file && fgets(text, sizeof text, file));
        fclose(file);
        if (strrchr(text, ')')[2] == 'S') break;
        usleep(1000);
    }
    IS(pthread_cancel(thread), 0);
    IS(pthread_join(thread, &result), 0);
    // From glibc 2.41 on a write that has moved bytes returns their number, and its thread goes on (glibc's bug 12683).
    int goes_on = *how == 'w' && __GLIBC_PREREQ(2, 41);
    CHECK(result == (goes_on ? NULL : PTHREAD_CANCELED) && cleaned == before + !goes_on);
}
int main(void) {
    pair(ends);
    cancel("r");
    cancel("v");
    cancel("p");
    IS(write(ends[1], "x", 1), 1);
    IS(read(ends[0], large, 10), 1);
    cancel("w");
    IS(waiting(ends[0]), fcntl(ends[0], F_GETPIPE_SZ));
    read_all(ends[0], large, 5000);
    IS(write(ends[1], "x", 1), 1);
    return 0;
}
