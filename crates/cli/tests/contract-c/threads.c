// Threads of one process read and write the same ends at the same time.
#include "check.h"
static int ends[2];
static long got_sum, got_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *writer(void *of) {
    unsigned char block[777];
    memset(block, (int)(intptr_t)of, sizeof block);
    for (int i = 0; i < 500; i++) IS(write(ends[1], block, sizeof block), sizeof block);
    return NULL;
}
static void *reader(void *of) {
    (void)of;
    unsigned char block[1000];
    long sum = 0, count = 0, n;
    while ((n = read(ends[0], block, sizeof block)) > 0) {
        count += n;
        while (n-- > 0) sum += block[n];
    }
    pthread_mutex_lock(&lock);
    got_sum += sum;
    got_count += count;
    pthread_mutex_unlock(&lock);
    return NULL;
}
int main(void) {
    pthread_t writers[4], readers[4];
    pair(ends);
    for (intptr_t i = 0; i < 4; i++) {
        IS(pthread_create(&readers[i], NULL, reader, NULL), 0);
        IS(pthread_create(&writers[i], NULL, writer, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(writers[i], NULL);
    close(ends[1]);
    for (int i = 0; i < 4; i++) pthread_join(readers[i], NULL);
    IS(got_count, 4 * 500 * 777L);
    IS(got_sum, 500 * 777L * 10);
    return 0;
}
