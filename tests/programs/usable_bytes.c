/* Promise: all bytes up to malloc_usable_size may be written, in a program built with -D_FORTIFY_SOURCE=3 too, where
 * the compiler checks writes against the size it knows. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    unsigned long sum = 0;
    for (size_t n = 1; n < 3000; n++) {
        char *p = malloc(n);
        size_t usable = malloc_usable_size(p);
        if (usable < n) return 1;
        p = realloc(p, usable);
        memset(p, (int)n, usable);
        sum += (unsigned char)p[usable - 1];
        free(p);
    }
    printf("%lu\n", sum);
    return 0;
}
