/* Promise: memory of threads that have ended, or that sleep, is free for others once its blocks are. Rounds of: a
 * thread makes 20 MiB and ends (`ended`) or waits (`asleep`); main frees it all. Prints the resident KiB after the
 * third round and after the last. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20000, SIZE = 1000, ROUNDS = 30 };
static void *block[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int made, end;

static long resident(void) {
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    fclose(f);
    return kib;
}

static void *make(void *sleeps) {
    for (int i = 0; i < BLOCKS; i++) memset(block[i] = malloc(SIZE), 1, SIZE);
    pthread_mutex_lock(&lock);
    made = 1;
    pthread_cond_broadcast(&changed);
    while (sleeps && !end) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv) {
    int sleeps = argc > 1 && strcmp(argv[1], "asleep") == 0;
    pthread_t t[ROUNDS];
    long early = 0;
    for (int r = 0; r < ROUNDS; r++) {
        pthread_create(&t[r], NULL, make, sleeps ? t : NULL);
        pthread_mutex_lock(&lock);
        while (!made) pthread_cond_wait(&changed, &lock);
        made = 0;
        pthread_mutex_unlock(&lock);
        if (!sleeps) pthread_join(t[r], NULL);
        for (int i = 0; i < BLOCKS; i++) free(block[i]);
        if (r == 2) early = resident();
    }
    printf("%ld %ld\n", early, resident());
    pthread_mutex_lock(&lock);
    end = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (sleeps)
        for (int r = 0; r < ROUNDS; r++) pthread_join(t[r], NULL);
    return 0;
}
