/* A forked child allocates, starts a thread before its 64th event, and frees what it allocated before:
 * all of it at home. Promise: in the child's profile 0 remote frees of the 100-byte blocks, 2 threads. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *allocate(void *unused) {
    void *volatile block = malloc(10);
    free(block);
    return unused;
}

int main(void) {
    void *volatile before = malloc(5);
    if (fork() == 0) {
        void *blocks[20];
        for (int i = 0; i < 20; i++) blocks[i] = malloc(100);
        pthread_t thread;
        pthread_create(&thread, NULL, allocate, NULL);
        pthread_join(thread, NULL);
        for (int i = 0; i < 20; i++) free(blocks[i]);
        exit(0);
    }
    wait(NULL);
    free(before);
    return 0;
}
