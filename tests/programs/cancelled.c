/* Promise: allocating is no cancellation point, not even as the first act of a thread that has been cancelled already.
 * Each of 100 threads, cancelled before it starts to work, makes and frees 10 blocks (make_cancelled) and then reaches
 * a cancellation point; its clean-up handler frees one more. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t ready;
static int worked;

__attribute__((noinline)) void *make_cancelled(void) {
    void *p = malloc(40);
    __asm__ volatile("" ::: "memory");
    return p;
}

static void *work(void *unused) {
    pthread_barrier_wait(&ready); /* cancelled from here on */
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 10; i++) free(make_cancelled());
    worked++;
    pthread_cleanup_push(free, make_cancelled());
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return unused;
}

int main(void) {
    int cancelled = 0;
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < 100; i++) {
        pthread_t t;
        void *result = NULL;
        pthread_create(&t, NULL, work, NULL);
        pthread_barrier_wait(&ready);
        pthread_cancel(t);
        pthread_barrier_wait(&ready);
        pthread_join(t, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("%d worked, %d cancelled\n", worked, cancelled);
    return 0;
}
