/* Promise: however a process ends, it ends as without us and its profile is whole. `endings WAY`: three threads
 * allocate without pause, a fourth starts and joins threads, then the process ends by
 *   return     main returns while they run          exit       main calls exit
 *   thread     another thread calls exit            pthread    main ends by pthread_exit; the last thread ends it
 *   quick      quick_exit, with a handler           _exit      _exit
 *   abort      abort                                segv       a wild read
 * Exit handlers allocate and free. The exit code is 7 where it can be chosen. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int stop, rounds;

static void *churn(void *unused) {
    for (int i = 0; !stop; i++) {
        free(realloc(malloc(16 + i % 500), 16 + i % 700));
        rounds++;
    }
    return unused;
}

static void *nothing(void *p) {
    free(p);
    return NULL;
}

static void *starter(void *unused) {
    while (!stop) {
        pthread_t t;
        if (pthread_create(&t, NULL, nothing, malloc(30))) break;
        pthread_join(t, NULL);
    }
    return unused;
}

static void *ender(void *unused) {
    (void)unused;
    while (rounds < 1000) usleep(100);
    exit(7);
}

static void handler(void) {
    char *p = malloc(3000);
    memset(p, 1, 3000);
    free(p);
    (void)!write(1, "handler\n", 8);
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "return";
    atexit(handler);
    at_quick_exit(handler);
    pthread_t t[4];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, churn, NULL);
    pthread_create(&t[3], NULL, starter, NULL);
    while (rounds < 1000) usleep(100);
    if (!strcmp(way, "exit")) exit(7);
    if (!strcmp(way, "thread")) {
        pthread_t e;
        pthread_create(&e, NULL, ender, NULL);
        pause();
    }
    if (!strcmp(way, "pthread")) {
        stop = 1;
        pthread_exit(NULL);
    }
    if (!strcmp(way, "quick")) quick_exit(7);
    if (!strcmp(way, "_exit")) _exit(7);
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "segv")) raise(SIGSEGV);
    return 7;
}
