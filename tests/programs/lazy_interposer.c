/* A library that hooks calloc and malloc before us and asks dlsym for the next ones lazily, inside the first call:
 * dlsym itself may calloc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static __thread int resolving;

void *calloc(size_t n, size_t size) {
    static void *(*next)(size_t, size_t);
    if (!next) {
        if (resolving) return NULL; /* dlsym copes with a failed calloc */
        resolving = 1;
        dlsym(RTLD_NEXT, "no such symbol, so that an error text is allocated");
        next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
        resolving = 0;
    }
    return next(n, size);
}

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return next(size);
}
