/* Promise: forked workers that never exec do not overwrite one file. The parent keeps 100 blocks over the fork and
 * frees them; worker w makes and frees 1000 * w blocks (w = 1, 2, 3), then frees its copies of the 100. With the
 * argument `_exit` the workers end without running exit handlers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *kept[100];

int main(int argc, char **argv) {
    for (int i = 0; i < 100; i++) kept[i] = malloc(100);
    pid_t worker[3];
    for (int w = 1; w <= 3; w++) {
        worker[w - 1] = fork();
        if (worker[w - 1] == 0) {
            for (int i = 0; i < 1000 * w; i++) free(malloc(10 * w));
            for (int i = 0; i < 100; i++) free(kept[i]);
            if (argc > 1 && strcmp(argv[1], "_exit") == 0) _exit(w);
            exit(w);
        }
    }
    for (int w = 1; w <= 3; w++) {
        int status;
        if (waitpid(worker[w - 1], &status, 0) < 0 || WEXITSTATUS(status) != w) return 1;
    }
    for (int i = 0; i < 100; i++) free(kept[i]);
    return 0;
}
