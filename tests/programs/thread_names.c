/* Promise: a thread's role is its name with the numbers folded, whichever way it got it. Every thread frees 10 blocks
 * that main made (make_for), so its role shows as a free role:
 *   pool-0 … pool-2   pthread_setname_np on itself          net-7     prctl
 *   io-worker-1       named by its parent                   renamed-2 after 10 frees as first-1
 *   job_start         never named: its start function */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { BLOCKS = 10 };
static sem_t named;

__attribute__((noinline)) void **make_for(void) {
    static void *block[16][2 * BLOCKS];
    static int next;
    void **row = block[next++];
    for (int i = 0; i < 2 * BLOCKS; i++) row[i] = malloc(40);
    return row;
}

static void release(void **row, int from, int to) {
    for (int i = from; i < to; i++) free(row[i]);
}

static void *pool(void *row) {
    static _Atomic int number;
    char name[16];
    snprintf(name, sizeof name, "pool-%d", number++);
    pthread_setname_np(pthread_self(), name);
    release(row, 0, BLOCKS);
    return NULL;
}

static void *net(void *row) {
    prctl(PR_SET_NAME, "net-7");
    release(row, 0, BLOCKS);
    return NULL;
}

static void *io(void *row) {
    sem_wait(&named);
    release(row, 0, BLOCKS);
    return NULL;
}

static void *renamed(void *row) {
    pthread_setname_np(pthread_self(), "first-1");
    release(row, 0, BLOCKS);
    pthread_setname_np(pthread_self(), "renamed-2");
    release(row, BLOCKS, 2 * BLOCKS);
    return NULL;
}

__attribute__((noinline)) void *job_start(void *row) {
    release(row, 0, BLOCKS);
    return NULL;
}

int main(void) {
    void *(*start[])(void *) = {pool, pool, pool, net, io, renamed, job_start};
    sem_init(&named, 0, 0);
    for (unsigned i = 0; i < sizeof start / sizeof *start; i++) {
        pthread_t t;
        pthread_create(&t, NULL, start[i], make_for());
        if (start[i] == io) {
            pthread_setname_np(t, "io-worker-1");
            sem_post(&named);
        }
        pthread_join(t, NULL);
    }
    puts("7 threads");
    return 0;
}
