/* Threads that allocate about as often as a thread may before it has an account, and for which the C library frees
   something at their very end. Their stacks are too large to be kept, so whoever looks at one later would fault. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static int blocks;

static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < blocks; i++) {
        void *volatile p = malloc(8);
        free(i % 2 ? 0 : p);
    }
    volatile char *message = strerror(12345);
    (void)message;
    return 0;
}

__attribute__((weak)) unsigned long long homefree_ledger_current(void);

int main(void) {
    for (blocks = 0; blocks < 40; blocks++) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, (size_t)256 << 20);
        if (pthread_create(&thread, &attributes, work, 0)) return 2;
        pthread_join(thread, 0);
        if (homefree_ledger_current && homefree_ledger_current() > 1 << 20) return 3;
    }
    puts("ended");
    return 0;
}
