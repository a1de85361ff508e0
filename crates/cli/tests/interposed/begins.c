// Threads that make their first pipes at once, in each of so many children. Says how many died.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int ready, go;

static void one_line(void) {
    char line[64];
    FILE *file = fopen("/proc/sys/kernel/ostype", "r");
    if (!file || !fgets(line, sizeof line, file) || fclose(file)) _exit(2);
}

static void *begin(void *unused) {
    int ends[2];
    __sync_fetch_and_add(&ready, 1);
    while (!go) continue;
    if (pipe2(ends, O_CLOEXEC)) _exit(3);
    close(ends[0]);
    close(ends[1]);
    one_line();
    return unused;
}

int main(int count, char **words) {
    int children = atoi(words[count - 1]), died = 0;
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t threads[3];
            alarm(20);
            for (int j = 0; j < 3; j++) pthread_create(&threads[j], 0, begin, 0);
            while (ready < 3) usleep(10);
            go = 1;
            for (int j = 0; j < 3; j++) pthread_join(threads[j], 0);
            one_line();
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        died += status != 0;
    }
    printf("%d of %d died\n", died, children);
    return 0;
}
