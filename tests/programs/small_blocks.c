/* Promise: blocks of 1 to 8 bytes that lie as close as the allocator can put them are told apart. Main makes 200,000,
 * a thread frees every second one, main the others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 200000 };
static void *block[BLOCKS];

__attribute__((noinline)) void make_small(void) {
    for (int i = 0; i < BLOCKS; i++) block[i] = malloc(1 + i % 8);
}

static void *free_even(void *unused) {
    for (int i = 0; i < BLOCKS; i += 2) free(block[i]);
    return unused;
}

int main(void) {
    make_small();
    pthread_t t;
    pthread_create(&t, NULL, free_even, NULL);
    pthread_join(t, NULL);
    for (int i = 1; i < BLOCKS; i += 2) free(block[i]);
    return 0;
}
