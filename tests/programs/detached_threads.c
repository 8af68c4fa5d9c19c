/* Promise: detached threads that nobody waits for are counted and do not disturb the end of the process.
 * 500 detached threads make and free 20 blocks each; main waits until all have said so, then returns at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int done;

static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < 20; i++) free(malloc(25 + i));
    done++;
    return NULL;
}

int main(void) {
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 500; i++) {
        pthread_t t;
        while (pthread_create(&t, &detached, work, NULL)) usleep(100);
    }
    while (done < 500) usleep(100);
    puts("500 detached threads");
    return 0;
}
