/* Promise: exactly four frees are remote, though pthread_self() of both threads is the same value.
 * A producer makes four blocks, reallocs, callocs and aligns blocks of its own and frees them, frees NULL and is
 * joined; a second thread, which gets the first one's stack and thread id, frees the four. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *block[4];
static pthread_t ids[2];

__attribute__((noinline)) void make_four(void) {
    for (int i = 0; i < 4; i++) block[i] = malloc(100 + i);
}

__attribute__((noinline)) void free_four(void) {
    for (int i = 0; i < 4; i++) free(block[i]);
    __asm__ volatile("" ::: "memory");
}

static void *producer(void *unused) {
    (void)unused;
    ids[0] = pthread_self();
    make_four();
    free(realloc(malloc(50), 5000));
    free(calloc(3, 11));
    free(aligned_alloc(64, 200));
    free(NULL);
    return NULL;
}

static void *consumer(void *unused) {
    (void)unused;
    ids[1] = pthread_self();
    free_four();
    return NULL;
}

int main(void) {
    pthread_t t;
    pthread_create(&t, NULL, producer, NULL);
    pthread_join(t, NULL);
    pthread_create(&t, NULL, consumer, NULL);
    pthread_join(t, NULL);
    puts(ids[0] == ids[1] ? "same id" : "different ids");
    return 0;
}
