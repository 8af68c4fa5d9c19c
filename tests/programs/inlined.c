/* Promise: inlined frames are in the stack, all and in order: outer_real calls inner_b, which calls inner_a, which
 * mallocs; both inner ones are inlined. 100 blocks are freed by a thread, in free_real. */
#include <pthread.h>
#include <stdlib.h>

static void *block[100];

static inline __attribute__((always_inline)) void *inner_a(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("" ::: "memory");
    return p;
}

static inline __attribute__((always_inline)) void *inner_b(size_t size) {
    char *p = inner_a(size * 2);
    p[0] = 1;
    return p;
}

__attribute__((noinline)) void *outer_real(size_t size) {
    void *p = inner_b(size + 1);
    __asm__ volatile("" ::: "memory");
    return p;
}

__attribute__((noinline)) void *free_real(void *unused) {
    for (int i = 0; i < 100; i++) free(block[i]);
    __asm__ volatile("" ::: "memory");
    return unused;
}

int main(void) {
    for (int i = 0; i < 100; i++) block[i] = outer_real(20);
    pthread_t t;
    pthread_create(&t, NULL, free_real, NULL);
    pthread_join(t, NULL);
    return 0;
}
