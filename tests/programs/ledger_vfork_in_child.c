/* Promise: a child of vfork that ends by _exit leaves the account alone of a process that was forked and has not made its
 * own yet. The forked child makes one block before it and one after. Prints the forked child's pid. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    void *volatile block;
    for (int i = 0; i < 1000; i++) block = malloc(40); /* its thread is known, and has credit */
    pid_t child = fork();
    if (child == 0) {
        block = malloc(1000);
        pid_t other = vfork();
        if (other == 0) _exit(9);
        int status;
        if (waitpid(other, &status, 0) != other || WEXITSTATUS(status) != 9) _exit(1);
        block = malloc(3000);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) return 3;
    printf("%d\n", (int)child);
    return block == NULL;
}
