/* Promise: destructors that run after ours still allocate and free, and every block is counted. 100 threads; each has
 * three keys whose destructors malloc two blocks, free one and re-arm with the other for four rounds. Half of the
 * threads touch malloc before they end, for the others a destructor is the only use.
 * A thread makes 3 keys * 4 rounds * 2 blocks = 24 and frees them all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 100, KEYS = 3, ROUNDS = 4 };

static pthread_key_t key[KEYS];
static __thread int round_of[KEYS];

__attribute__((noinline)) void *make_late(void) {
    void *p = malloc(72);
    __asm__ volatile("" ::: "memory");
    return p;
}

static void destroy(int k, void *value) {
    if (value != &round_of[k]) free(value); /* what the round before left */
    void *first = make_late(), *second = make_late();
    free(first);
    if (++round_of[k] < ROUNDS)
        pthread_setspecific(key[k], second);
    else
        free(second);
}
static void destroy_0(void *value) { destroy(0, value); }
static void destroy_1(void *value) { destroy(1, value); }
static void destroy_2(void *value) { destroy(2, value); }

static void *thread(void *early) {
    for (int k = 0; k < KEYS; k++) pthread_setspecific(key[k], &round_of[k]);
    if (early) free(malloc(10));
    return NULL;
}

int main(void) {
    pthread_key_create(&key[0], destroy_0);
    pthread_key_create(&key[1], destroy_1);
    pthread_key_create(&key[2], destroy_2);
    for (int i = 0; i < THREADS; i++) {
        pthread_t t;
        pthread_create(&t, NULL, thread, i % 2 ? &key : NULL);
        pthread_join(t, NULL);
    }
    puts("100 threads ended");
    return 0;
}
