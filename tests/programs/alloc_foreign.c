/* Promise: blocks that glibc's own names gave out behind our back are told from ours: a free leaves them alone, a
 * realloc fails, their usable size is 0; and so for any other address. Nothing is read at them. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t);

int main(void) {
    for (int i = 0; i < 1000; i++) {
        char *p = __libc_malloc(40);
        memset(p, 'x', 40);
        free(p);
        if (realloc(p, 20) != NULL || malloc_usable_size(p) != 0) return 1;
        for (int k = 0; k < 40; k++)
            if (p[k] != 'x') return 2;
    }
    /* Not even mapped, or not to be read. */
    char *closed = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t wild[] = {1, 4096, (uintptr_t)closed + 65536, 20ull << 40, 1ull << 46, 1ull << 47, 1ull << 63, UINTPTR_MAX - 7};
    for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) {
        free((void *)wild[i]);
        if (malloc_usable_size((void *)wild[i]) != 0) return 3;
    }
    /* In our own ranges, beyond what is in use. */
    char *ours = malloc(100);
    for (size_t ahead = 1 << 20; ahead < (size_t)1 << 41; ahead *= 2) free(ours + ahead);
    free(ours);
    puts("left alone");
    return 0;
}
