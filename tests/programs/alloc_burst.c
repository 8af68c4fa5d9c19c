/* Promise: after a burst, memory goes back. THREADS threads make 200 MiB of small blocks between them and free half of
 * each other's and half of their own, then all sleep. `alloc_burst MODE` says who comes by afterwards:
 *   trim   main calls malloc_trim once
 *   other  main takes and frees a little now and then
 *   quiet  nobody calls
 * Prints the resident KiB before, at the peak and at the end (`other`, `quiet`: after up to ten seconds, once it is low). */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 16, BLOCKS = 60000 };
static void *block[THREADS][BLOCKS];
static pthread_barrier_t made, freed, end;

static long resident(void) {
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    fclose(f);
    return kib;
}

static void *work(void *me) {
    long id = (long)me;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 32 + (i * 7919 + id) % 400;
        block[id][i] = malloc(size);
        memset(block[id][i], 1, size);
    }
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&made);
    for (int i = 0; i < BLOCKS; i += 2) free(block[id][i]);
    for (int i = 1; i < BLOCKS; i += 2) free(block[(id + 1) % THREADS][i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&end);
    return NULL;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "trim";
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_barrier_init(&made, NULL, THREADS + 1);
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    long before = resident();
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, (void *)i);
    pthread_barrier_wait(&made);
    long peak = resident();
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&freed);
    long last = 0;
    if (strcmp(mode, "trim") == 0) {
        malloc_trim(0);
        last = resident();
    } else {
        for (int i = 0; i < 100; i++) {
            usleep(100 * 1000);
            if (strcmp(mode, "other") == 0)
                for (int k = 0; k < 100; k++) free(malloc(2000 + k * 100));
            last = strcmp(mode, "quiet") == 0 ? 0 : resident();
            if (last && last < before + peak / 8) break;
            if (last == 0 && i == 30) last = resident(), i = 100;
        }
    }
    printf("%ld %ld %ld\n", before, peak, last);
    pthread_barrier_wait(&end);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    return 0;
}
