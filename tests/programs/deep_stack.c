/* Promise: stacks far deeper than the limit cost no more than the limit and are marked; the innermost frames are kept.
 * make_deep is called at the bottom of 1, 10, 100, 1000, 10000 and 60000 frames, 20 times each. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void *make_deep(void) {
    void *p = malloc(64);
    __asm__ volatile("" ::: "memory");
    return p;
}

__attribute__((noinline)) void *recurse(int n) {
    void *p = n > 0 ? recurse(n - 1) : make_deep();
    __asm__ volatile("" ::: "memory");
    return p;
}

int main(void) {
    int depths[] = {1, 10, 100, 1000, 10000, 60000};
    for (int d = 0; d < 6; d++)
        for (int i = 0; i < 20; i++) free(recurse(depths[d]));
    puts("120 blocks");
    return 0;
}
