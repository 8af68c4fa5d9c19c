/* Promise: a child of a threaded process never hangs, whatever the other threads did at the moment of the fork.
 * Three threads malloc and free in a loop, starting and ending further threads; main forks FORKS times, each child
 * mallocs a little, starts a thread and ends by _exit (even ones) or exit (odd ones). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 200 };
static atomic_int stop;

static void *nothing(void *p) {
    free(p);
    return NULL;
}

static void *churn(void *unused) {
    (void)unused;
    for (unsigned i = 0; !stop; i++) {
        void *p = malloc(16 + i % 2000);
        free(realloc(p, 16 + (i * 7) % 3000));
        if (i % 64 == 0) {
            pthread_t t;
            if (pthread_create(&t, NULL, nothing, malloc(40)) == 0) pthread_join(t, NULL);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, churn, NULL);
    int good = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t own;
            free(malloc(100));
            if (pthread_create(&own, NULL, nothing, malloc(50)) != 0) _exit(1);
            pthread_join(own, NULL);
            if (i % 2) exit(0);
            _exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) == pid && status == 0) good++;
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    printf("%d children ended well\n", good);
    return good != FORKS;
}
