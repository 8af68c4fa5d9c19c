/* Promise: threads by the ten thousand leave exact counts, and neither memory nor the profile grows with them.
 * `short_threads N`: each of N threads makes three blocks (make_three), frees two, gives one to main, which frees it.
 * Prints the resident peak in KiB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

__attribute__((noinline)) void make_three(void **block) {
    for (int i = 0; i < 3; i++) block[i] = malloc(64);
}

static void *short_life(void *unused) {
    (void)unused;
    void *block[3];
    make_three(block);
    free(block[0]);
    free(block[1]);
    return block[2];
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 2000;
    for (int i = 0; i < n; i += 4) {
        pthread_t t[4];
        void *p;
        for (int k = 0; k < 4; k++)
            if (pthread_create(&t[k], NULL, short_life, NULL)) return 1;
        for (int k = 0; k < 4; k++) {
            pthread_join(t[k], &p);
            free(p);
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld\n", usage.ru_maxrss);
    return 0;
}
