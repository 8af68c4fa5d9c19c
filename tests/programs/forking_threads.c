/* Promise: threads that fork, all at once, get children that can allocate.
 * THREADS threads each ROUNDS times: malloc, fork; the child makes 1 MiB of small blocks and ends by _exit. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 8, BLOCK = 256, BLOCKS = (1 << 20) / BLOCK };
static atomic_int good;

static void *forker(void *unused) {
    (void)unused;
    for (int r = 0; r < ROUNDS; r++) {
        char *mine = malloc(1000);
        pid_t pid = fork();
        if (pid == 0) {
            static void *block[BLOCKS];
            for (int i = 0; i < BLOCKS; i++)
                if (!(block[i] = malloc(BLOCK))) _exit(1);
            for (int i = 0; i < BLOCKS; i++) free(block[i]);
            free(mine);
            _exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) == pid && status == 0) good++;
        free(mine);
    }
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, forker, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    printf("%d children ended well\n", good);
    return good != THREADS * ROUNDS;
}
