/* Promise: a thread may allocate for the first time inside pthread_getattr_np, which holds a lock of the thread then
 * (the JVM begins every thread like this). 20 threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

static void *begin(void *unused) {
    pthread_attr_t attributes;
    void *stack;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes)) return &begin;
    pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
    return size > 0 ? unused : &begin;
}

int main(void) {
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        void *result;
        pthread_create(&t, NULL, begin, NULL);
        pthread_join(t, &result);
        if (result) return 1;
    }
    puts("20 threads began");
    return 0;
}
