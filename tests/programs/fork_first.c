/* Promise: a fork that meets the very first allocation of the process is safe. Three threads are let go at once: two
 * malloc, one forks; the child mallocs. Nothing of ours allocates before. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t start;

static void *first_malloc(void *unused) {
    (void)unused;
    pthread_barrier_wait(&start);
    free(malloc(10));
    return NULL;
}

static void *first_fork(void *unused) {
    (void)unused;
    pthread_barrier_wait(&start);
    pid_t pid = fork();
    if (pid == 0) {
        free(malloc(20));
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) _exit(1);
    return NULL;
}

int main(void) {
    pthread_t t[3];
    pthread_barrier_init(&start, NULL, 3);
    pthread_create(&t[0], NULL, first_malloc, NULL);
    pthread_create(&t[1], NULL, first_fork, NULL);
    pthread_create(&t[2], NULL, first_malloc, NULL);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    return 0;
}
