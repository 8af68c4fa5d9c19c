/* Promise: a child that was made by a bare system call, so that no handler of forks has run, changes nothing of its
 * parent's page. The parent holds 1 MB, the child makes 4 MB more; then the parent kills itself, so that its page is as the child left it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    void *volatile block;
    for (int i = 0; i < 1000; i++) block = malloc(1000);
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        for (int i = 0; i < 4000; i++) block = malloc(1000);
        _exit(block == NULL);
    }
    int status;
    if (waitpid((pid_t)child, &status, 0) != child || status) return 3;
    return raise(SIGKILL);
}
