/* Promise: threads that sleep hold little. `alloc_idle N`: N threads make and free a few blocks, then all sleep. Prints
 * the resident KiB, or `no` where so many threads can not be had. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t all, end;

static void *sleeper(void *unused) {
    void *p = malloc(40), *q = malloc(200), *r = malloc(2000);
    memset(r, 1, 2000);
    free(p);
    free(q);
    free(r);
    pthread_barrier_wait(&all);
    pause();
    return unused;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    pthread_barrier_init(&all, NULL, n + 1);
    for (int i = 0; i < n; i++) {
        pthread_t t;
        if (pthread_create(&t, &attr, sleeper, NULL)) {
            puts("no");
            fflush(stdout);
            _exit(0);
        }
    }
    pthread_barrier_wait(&all);
    char text[4096] = {0};
    FILE *f = fopen("/proc/self/status", "r");
    fread(text, 1, sizeof text - 1, f);
    printf("%d\n", atoi(strstr(text, "VmRSS:") + 6));
    fflush(stdout);
    _exit(0);
}
