/* Promise: a block from any C call that allocates pairs with any call that frees it, at home and on another thread.
 * `api_pairs home` frees each of ROUNDS blocks of each form on the main thread, `api_pairs remote` on a second one.
 * Prints how many frees it did. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { ROUNDS = 100, FORMS = 14, WAYS = 4, SIZE = 100, ALIGN = 128 };

static void *allocate(int form) {
    void *p = NULL;
    char *text = NULL;
    switch (form) {
    case 0: return malloc(SIZE);
    case 1: return calloc(10, 10);
    case 2: return realloc(NULL, SIZE);
    case 3: return realloc(malloc(7), 70000);
    case 4: return reallocarray(NULL, 10, 10);
    case 5: return memalign(ALIGN, SIZE);
    case 6: return aligned_alloc(ALIGN, SIZE);
    case 7: return posix_memalign(&p, ALIGN, SIZE) ? NULL : p;
    case 8: return valloc(SIZE);
    case 9: return pvalloc(SIZE);
    case 10: return strdup("a block made inside the libc");
    case 11: return wcsdup(L"a block made inside the libc");
    case 12: return asprintf(&text, "%d", form) < 0 ? NULL : text;
    case 13: return realloc(reallocarray(memalign(4096, 10), 300, 300), 20);
    }
    abort();
}

static void (*free_sized)(void *, size_t);
static void (*free_aligned_sized)(void *, size_t, size_t);

static int release(void *p, int form, int way) {
    switch (way) {
    case 0: free(p); return 1;
    case 1: /* C23; where the libc has it, or the library under test */
        if (free_sized && (form == 0 || form == 1 || form == 2 || form == 4)) free_sized(p, SIZE);
        else if (free_aligned_sized && form == 6) free_aligned_sized(p, ALIGN, SIZE);
        else free(p);
        return 1;
    case 2: /* free by realloc: one more free when it moves, none when it does not */
        free(realloc(p, 10));
        return 1;
    case 3: /* realloc to nothing is a free in glibc */
        if (realloc(p, 0) != NULL) abort();
        return 1;
    }
    abort();
}

static void *waiting[ROUNDS][FORMS][WAYS];

static void *release_all(void *unused) {
    (void)unused;
    int n = 0;
    for (int r = 0; r < ROUNDS; r++)
        for (int f = 0; f < FORMS; f++)
            for (int w = 0; w < WAYS; w++) n += release(waiting[r][f][w], f, w);
    printf("%d frees\n", n);
    return NULL;
}

int main(int argc, char **argv) {
    free_sized = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    free_aligned_sized = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    setvbuf(stdout, NULL, _IONBF, 0); /* the stream's own buffer is allocated by whoever prints first */
    for (int r = 0; r < ROUNDS; r++)
        for (int f = 0; f < FORMS; f++)
            for (int w = 0; w < WAYS; w++) {
                char *p = allocate(f);
                if (!p) abort();
                if (malloc_usable_size(p) < 1) abort();
                waiting[r][f][w] = p;
            }
    if (argc > 1 && strcmp(argv[1], "remote") == 0) {
        pthread_t t;
        pthread_create(&t, NULL, release_all, NULL);
        pthread_join(t, NULL);
    } else {
        release_all(NULL);
    }
    return 0;
}
