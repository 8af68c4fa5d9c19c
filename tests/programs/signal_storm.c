/* Promise: an allocation in a signal handler that interrupts an allocation neither hangs nor corrupts. A timer fires at
 * 1 kHz while three threads allocate; the handler mallocs and frees. Run with signal_safe_malloc.c behind, so that
 * only the recorder can be to blame. Ends after 300 signals and 300,000 rounds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static atomic_int signals;

static void handler(int unused) {
    (void)unused;
    char *p = malloc(48);
    *p = 1;
    free(p);
    free(calloc(2, 100));
    signals++;
}

static void *churn(void *unused) {
    static _Thread_local void *kept[16];
    for (unsigned i = 0; i < 100000 || signals < 300; i++) {
        free(kept[i % 16]);
        kept[i % 16] = malloc(16 + i % 100);
        if (i % 8 == 0) kept[i % 16] = realloc(kept[i % 16], 200);
    }
    for (int i = 0; i < 16; i++) free(kept[i]);
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, churn, NULL);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    puts("survived the storm");
    return 0;
}
