/* Promise: stacks by the hundred thousand. Walks a binary tree of calls 20 deep; every node allocates and frees, so
 * each of its 2^20 - 1 blocks has a stack of its own. */
#include <stdio.h>
#include <stdlib.h>

static long blocks;

__attribute__((noinline)) void *walk(int depth) {
    void *p = malloc(24);
    blocks++;
    if (depth > 1) {
        free(walk(depth - 1));
        __asm__ volatile("" ::: "memory");
        free(walk(depth - 1));
    }
    return p;
}

int main(void) {
    free(walk(20));
    printf("%ld blocks\n", blocks);
    return 0;
}
