/* A worker forks, and in the child its start function returns at once, without an event: what it counted
 * in the parent stays the parent's. Promise: the parent's profile has the worker's 1000 remote frees. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *blocks[1000];

static void *worker(void *unused) {
    for (int i = 0; i < 1000; i++) free(blocks[i]);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) return unused; /* the only thread ends, and the process with it */
        waitpid(child, NULL, 0);
    }
    return unused;
}

int main(void) {
    for (int i = 0; i < 1000; i++) blocks[i] = malloc(64);
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
