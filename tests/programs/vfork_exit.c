/* Promise: a child of vfork, which runs in our memory, may fail to exec and end by _exit without ending the parent's
 * recording. The parent makes 1000 blocks before and 1000 after (make_around). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) void *make_around(void) {
    void *p = malloc(40);
    __asm__ volatile("" ::: "memory");
    return p;
}

int main(void) {
    volatile int good = 0;
    for (int i = 0; i < 1000; i++) free(make_around());
    for (int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/no/such/program", "program", (char *)NULL);
            _exit(9);
        }
        int status;
        if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9) good++;
    }
    for (int i = 0; i < 1000; i++) free(make_around());
    printf("%d children\n", good);
    return 0;
}
