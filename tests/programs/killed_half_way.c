/* Promise: what was counted before SIGKILL reads back. A thread frees 50,000 blocks of main and ends; another frees
 * 50,000 and stays. Main keeps 1,000 blocks, says "ready" and waits to be killed, while a last thread goes on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCKS = 50000 };
static void *block[2][BLOCKS], *kept[1000];

__attribute__((noinline)) void *make_counted(void) {
    void *p = malloc(32);
    __asm__ volatile("" ::: "memory");
    return p;
}

__attribute__((noinline)) void free_counted(void *row) {
    for (int i = 0; i < BLOCKS; i++) free(((void **)row)[i]);
    __asm__ volatile("" ::: "memory");
}

static pthread_barrier_t both;

static void *ends(void *row) {
    pthread_setname_np(pthread_self(), "ends");
    free_counted(row);
    return NULL;
}

static void *stays(void *row) {
    pthread_setname_np(pthread_self(), "stays");
    free_counted(row);
    pthread_barrier_wait(&both);
    for (;;) pause();
    return NULL;
}

static void *goes_on(void *unused) {
    pthread_barrier_wait(&both);
    for (;;) free(malloc(8));
    return unused;
}

int main(void) {
    pthread_barrier_init(&both, NULL, 3);
    for (int i = 0; i < 2 * BLOCKS; i++) block[i / BLOCKS][i % BLOCKS] = make_counted();
    for (int i = 0; i < 1000; i++) kept[i] = make_counted();
    pthread_t t[3];
    pthread_create(&t[0], NULL, ends, block[0]);
    pthread_join(t[0], NULL);
    pthread_create(&t[1], NULL, stays, block[1]);
    pthread_create(&t[2], NULL, goes_on, NULL);
    pthread_barrier_wait(&both);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
