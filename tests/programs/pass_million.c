/* Promise: two producers pass exactly 1,000,000 blocks to two consumers, and the report counts them all.
 * make_object() is the only allocation site, drop_object() the only free site. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { OBJECTS = 1000000, BATCH = 250, SLOTS = 64 };

struct batch { void *object[BATCH]; };

static struct batch ring[SLOTS];
static unsigned head, tail, produced;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

__attribute__((noinline)) void *make_object(unsigned i) {
    char *p = malloc(16 + i % 48);
    p[0] = (char)i;
    return p;
}

__attribute__((noinline)) void drop_object(void *p) {
    free(p);
    __asm__ volatile("" ::: "memory"); /* no tail call: this function must be on the stack */
}

static void *produce(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (unsigned n = 0; n < OBJECTS / 2 / BATCH; n++) {
        struct batch b;
        for (unsigned i = 0; i < BATCH; i++) b.object[i] = make_object(i);
        pthread_mutex_lock(&lock);
        while (head - tail == SLOTS) pthread_cond_wait(&changed, &lock);
        ring[head++ % SLOTS] = b;
        produced += BATCH;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *consume(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (head == tail && produced < OBJECTS) pthread_cond_wait(&changed, &lock);
        if (head == tail) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        struct batch b = ring[tail++ % SLOTS];
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        for (unsigned i = 0; i < BATCH; i++) drop_object(b.object[i]);
    }
}

int main(void) {
    pthread_t t[4];
    pthread_create(&t[0], NULL, produce, "producer-0");
    pthread_create(&t[1], NULL, produce, "producer-1");
    pthread_create(&t[2], NULL, consume, "consumer-0");
    pthread_create(&t[3], NULL, consume, "consumer-1");
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("passed %d\n", OBJECTS);
    return 0;
}
