/* Promise: every size up to 4 KiB at every alignment up to 64 KiB comes aligned, whole and distinct from its
 * neighbours, and pairs with its free, at home and on the other thread. Prints how many blocks. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *given[17];

static void *free_given(void *unused) {
    (void)unused;
    for (int i = 0; i < 17; i++) free(given[i]);
    return NULL;
}

int main(void) {
    long blocks = 0;
    for (size_t size = 0; size <= 4096; size += size < 130 ? 1 : 61) {
        for (int shift = 0; shift <= 16; shift++) {
            size_t align = (size_t)1 << shift;
            unsigned char *p = memalign(align, size);
            if (!p || (uintptr_t)p % align || malloc_usable_size(p) < size) return 1;
            memset(p, shift, size);
            given[shift] = p;
            blocks++;
        }
        for (int shift = 0; shift <= 16; shift++)
            for (size_t i = 0; i < size; i++)
                if (((unsigned char *)given[shift])[i] != shift) return 2;
        if (size % 8) {
            free_given(NULL);
        } else {
            pthread_t t;
            pthread_create(&t, NULL, free_given, NULL);
            pthread_join(t, NULL);
        }
    }
    printf("%ld\n", blocks);
    return 0;
}
