/* Promise: what we did not see allocated is handed on unchanged and counted. `foreign_pointers bypass` frees 1000
 * blocks that the libc's own name gave out; `foreign_pointers local` frees a local, which the libc answers by abort. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t);

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "bypass") == 0) {
        for (int i = 0; i < 1000; i++) {
            void *p = __libc_malloc(40);
            free(i % 2 ? p : realloc(p, 20)); /* 20 fits: the block stays where it is */
        }
        puts("1000 foreign blocks freed");
        return 0;
    }
    char local[64] = {0};
    void *volatile p = local + 16;
    free(p);
    return 0;
}
