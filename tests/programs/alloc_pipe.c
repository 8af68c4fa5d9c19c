/* Promise: one thread that only allocates and one that only frees, with few blocks on their way at any time, stay as
 * small as that, whatever they pass on. `alloc_pipe ROUNDS SIZE`: so many batches of 100 blocks, at most 16 batches on
 * their way. Prints the resident KiB after a tenth of the rounds and at the end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 100, ROOM = 16 };
static void **queue[ROOM];
static int count, first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long rounds, early;
static size_t size;

static long resident(void) {
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    fclose(f);
    return kib;
}

static void *consume(void *unused) {
    (void)unused;
    for (long r = 0; r < rounds; r++) {
        pthread_mutex_lock(&lock);
        while (count == 0) pthread_cond_wait(&changed, &lock);
        void **batch = queue[first];
        first = (first + 1) % ROOM;
        count--;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < BATCH; i++) free(batch[i]);
        free(batch);
        if (r == rounds / 10) early = resident();
    }
    return NULL;
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 10000;
    size = argc > 2 ? (size_t)atol(argv[2]) : 256;
    pthread_t t;
    pthread_create(&t, NULL, consume, NULL);
    for (long r = 0; r < rounds; r++) {
        void **batch = malloc(sizeof *batch * BATCH);
        for (int i = 0; i < BATCH; i++) *(char *)(batch[i] = malloc(size)) = 1;
        pthread_mutex_lock(&lock);
        while (count == ROOM) pthread_cond_wait(&changed, &lock);
        queue[(first + count++) % ROOM] = batch;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(t, NULL);
    printf("%ld %ld\n", early, resident());
    return 0;
}
