/* Promise: a thread whose first and only act is a free is known as a thread and ends as one. 1000 times: main makes a
 * block (make_for_other), a short-lived thread frees it (free_first). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void *make_for_other(void) {
    void *p = malloc(33);
    __asm__ volatile("" ::: "memory");
    return p;
}

__attribute__((noinline)) void *free_first(void *p) {
    free(p);
    __asm__ volatile("" ::: "memory");
    return NULL;
}

int main(void) {
    for (int i = 0; i < 1000; i++) {
        pthread_t t;
        pthread_create(&t, NULL, free_first, make_for_other());
        pthread_join(t, NULL);
    }
    puts("1000 threads freed");
    return 0;
}
