/* Promise: in checked mode a fault ends the process with a line that says what and where; a program without faults
 * runs as ever. `alloc_faults FAULT`. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void free_sized(void *, size_t) __attribute__((weak));

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "none";
    for (size_t size = 10; size < 3000000; size = size * 3 + 1) {
        char *volatile p = malloc(size);
        memset(p, 1, size);
        if (malloc_usable_size(p) < size) return 3;
        if (!strcmp(fault, "double")) free(p), free(p);
        if (!strcmp(fault, "double-later")) {
            free(p);
            for (int i = 0; i < 200; i++) free(malloc(size));
            free(p);
        }
        if (!strcmp(fault, "inside")) free(p + 8);
        if (!strcmp(fault, "past-end")) p[size] = 7, free(p);
        if (!strcmp(fault, "far-past-end")) memset(p, 7, size + 40), free(p);
        if (!strcmp(fault, "after-free")) {
            free(p);
            p[size / 2] = 7;
            for (int i = 0; i < 3000; i++) free(malloc(50));
        }
        if (!strcmp(fault, "wrong-size")) free_sized(p, size + 1);
        if (!strcmp(fault, "local")) {
            char local[64];
            free(local + 16);
        }
        p = realloc(p, size * 2);
        if (p[size - 1] != 1) return 4;
        free_sized(p, size * 2);
        char *zero = calloc(1, size), *aligned = memalign(256, size);
        for (size_t i = 0; i < size; i++)
            if (zero[i]) return 5;
        if ((size_t)aligned % 256) return 6;
        memset(aligned, 1, size);
        free(zero);
        free(aligned);
    }
    puts("well");
    return 0;
}
