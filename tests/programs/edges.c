/* Promise: the edges of the malloc family answer as the libc's own do, errno included. Prints every answer; the test
 * compares the output with that of a run without us. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Walloc-size-larger-than="
#pragma GCC diagnostic ignored "-Wuse-after-free"

static void *volatile sentinel = (void *)0x1234;

#define SAY(what)                                                                                                      \
    do {                                                                                                               \
        errno = 99;                                                                                                    \
        void *p_ = (what);                                                                                             \
        int e_ = errno;                                                                                                \
        printf("%-44s %s errno %d\n", #what, p_ ? "block" : "NULL", e_);                                               \
        free(p_);                                                                                                      \
    } while (0)

static void memalign_into(size_t align, size_t size) {
    void *p = sentinel;
    errno = 98;
    int answer = posix_memalign(&p, align, size);
    int e = errno;
    printf("posix_memalign %zu %zu: %d, errno %d, pointer %s\n", align, size, answer, e,
           p == sentinel ? "untouched" : p ? "set" : "NULL");
    if (p != sentinel) free(p);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    volatile size_t half = (size_t)1 << 33, most = PTRDIFF_MAX, all = SIZE_MAX, zero = 0;

    SAY(malloc(zero));
    SAY(malloc(most));
    SAY(malloc(most - 1));
    SAY(malloc(most + 1));
    SAY(malloc(all));
    SAY(malloc(all - 64));
    SAY(calloc(zero, 5));
    SAY(calloc(5, zero));
    SAY(calloc(half, half));
    SAY(calloc(all, 2));
    SAY(calloc(1, most));
    SAY(realloc(NULL, zero));
    SAY(realloc(NULL, 10));
    SAY(realloc(NULL, all));
    SAY(reallocarray(NULL, half, half));
    SAY(reallocarray(NULL, zero, 10));
    SAY(reallocarray(NULL, 10, 10));
    SAY(aligned_alloc(64, most));
    SAY(aligned_alloc(64, zero));
    SAY(aligned_alloc(24, 100));
    SAY(aligned_alloc(zero, 100));
    SAY(aligned_alloc(1, 100));
    SAY(aligned_alloc(4096, 1));
    SAY(memalign(24, 100));
    SAY(memalign(zero, 100));
    SAY(memalign(most + 1, 1));
    SAY(memalign(all, 1));
    SAY(memalign(64, all));
    SAY(valloc(zero));
    SAY(valloc(all));
    SAY(pvalloc(zero));
    SAY(pvalloc(1));
    SAY(pvalloc(all));
    SAY(pvalloc(all - 4095));

    size_t aligns[] = {0, 1, 2, 4, 8, 12, 16, 24, 48, 64, 4096, (size_t)1 << 40, (size_t)1 << 63};
    size_t sizes[] = {0, 1, 100, SIZE_MAX - 64, SIZE_MAX};
    for (unsigned a = 0; a < sizeof aligns / sizeof *aligns; a++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) memalign_into(aligns[a], sizes[s]);

    char *p = malloc(100);
    strcpy(p, "still here");
    errno = 97;
    void *q = realloc(p, all);
    printf("failed realloc: %s, errno %d, old block: %s\n", q ? "block" : "NULL", errno, p);
    errno = 97;
    q = reallocarray(p, half, half);
    printf("failed reallocarray: %s, errno %d, old block: %s\n", q ? "block" : "NULL", errno, p);
    errno = 97;
    q = realloc(p, zero);
    printf("realloc to nothing: %s, errno %d\n", q ? "block" : "NULL", errno);
    q = reallocarray(malloc(10), 10, zero);
    printf("reallocarray to nothing: %s\n", q ? "block" : "NULL");
    for (int i = 0; i < 10000; i++) q = realloc(malloc(1000), zero);

    errno = 96;
    free(NULL);
    free(malloc(10));
    free(malloc(1 << 22));
    p = malloc(20);
    p = realloc(p, 1 << 22);
    p = realloc(p, 1 << 23);
    p = realloc(p, 20);
    free(p);
    printf("errno after good calls: %d\n", errno);

    printf("usable size of NULL: %zu\n", malloc_usable_size(NULL));
    for (size_t n = 0; n < 5000; n += 37) {
        p = malloc(n);
        size_t usable = malloc_usable_size(p);
        memset(p, 0xAB, usable);
        int stable = usable >= n && malloc_usable_size(p) == usable;
        char *moved = realloc(p, usable);
        printf("%zu:%s%s ", n, stable ? "usable" : "changed", moved == p ? "" : " moved");
        free(moved);
    }
    puts("");
    p = calloc(1, 4000);
    memset(p, 1, 4000);
    free(p);
    p = calloc(1, 4000);
    int dirty = 0;
    for (int i = 0; i < 4000; i++) dirty |= p[i];
    printf("calloc of used memory is %s\n", dirty ? "dirty" : "clean");
    free(p);
    struct mallinfo2 info = mallinfo2();
    malloc_trim(0);
    printf("mallinfo2 knows %s, mallopt %d\n", info.arena > 0 ? "an arena" : "nothing", mallopt(M_TRIM_THRESHOLD, 1 << 17));
    return 0;
}
