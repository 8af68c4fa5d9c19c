/* Promise: under a limit of address space, all of it can be had, the answer after that is NULL and ENOMEM, and what is
 * freed can be had again. Prints how many MiB of 1000-byte blocks fit in 256 MiB, twice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct block {
    struct block *next;
    char rest[992];
};

static long fill(void) {
    struct block *all = NULL, *b;
    long n = 0;
    errno = 0;
    while ((b = malloc(sizeof *b))) {
        b->next = all;
        all = b;
        n++;
    }
    if (errno != ENOMEM) exit(3);
    if (malloc(1 << 30) || calloc(1 << 10, 1 << 20) || realloc(all, 1 << 30)) exit(4);
    while (all) {
        b = all->next;
        free(all);
        all = b;
    }
    return n * (long)sizeof *b >> 20;
}

int main(void) {
    struct rlimit limit = {256 << 20, 256 << 20};
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    long first = fill(), second = fill();
    printf("%ld %ld\n", first, second);
    return 0;
}
