/* Promise: allocations before main are recorded and pair. A constructor of the program makes blocks and starts a thread
 * that frees half of them; main frees the others; a destructor frees one more. make_early is the site of all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *early[200], *last;

__attribute__((noinline)) void *make_early(void) {
    void *p = malloc(48);
    __asm__ volatile("" ::: "memory");
    return p;
}

static void *free_half(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) free(early[i]);
    return NULL;
}

__attribute__((constructor(101))) static void first(void) {
    for (int i = 0; i < 200; i++) early[i] = make_early();
    last = make_early();
    pthread_t t;
    pthread_create(&t, NULL, free_half, NULL);
    pthread_join(t, NULL);
}

__attribute__((destructor(101))) static void finish(void) { free(last); }

int main(void) {
    for (int i = 100; i < 200; i++) free(early[i]);
    puts("main ran");
    return 0;
}
