/* Promise: a forked child's account begins with what it holds of its parent's, and is its own from there on; the parent's is
 * not touched. The parent keeps 1,000 blocks; the child frees half of them and makes 300 of its own, then ends by exit,
 * _exit or exec of `true`. Both ask the library. `ledger_fork exit|_exit|exec`. Prints what the child made and freed. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((weak)) unsigned long long homefree_ledger_current(void);

static void *block[1300];

int main(int argc, char **argv) {
    if (!homefree_ledger_current || argc < 2) return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 1000; i++) block[i] = malloc(40 + (size_t)i);
    long long before = (long long)homefree_ledger_current();
    pid_t child = fork();
    if (child == 0) {
        long long made = 0, freed = 0;
        if ((long long)homefree_ledger_current() != before) _exit(11);
        for (int i = 0; i < 500; i++) {
            freed += (long long)malloc_usable_size(block[i]);
            free(block[i]);
        }
        for (int i = 1000; i < 1300; i++) {
            block[i] = malloc(1000);
            made += (long long)malloc_usable_size(block[i]);
        }
        if ((long long)homefree_ledger_current() != before + made - freed) _exit(12);
        char line[100]; /* not dprintf, which allocates */
        int len = snprintf(line, sizeof line, "%lld %lld %lld\n", before, made, freed);
        if (write(1, line, (size_t)len) != len) _exit(14);
        if (!strcmp(argv[1], "exit")) exit(0);
        if (!strcmp(argv[1], "exec")) execl("/bin/true", "true", (char *)NULL);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status) return WEXITSTATUS(status);
    if ((long long)homefree_ledger_current() != before) return 13;
    return 0;
}
