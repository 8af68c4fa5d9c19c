/* A plug-in: thread-local storage with an address, a constructor and a destructor that allocate, a function that makes a
 * block. NAME says what the function is called. */
#include <stdlib.h>
#include <string.h>

#ifndef NAME
#define NAME plugin_make
#endif

static __thread char local[512];
static void *own;

__attribute__((constructor)) static void load(void) { own = malloc(80); }
__attribute__((destructor)) static void unload(void) {
    free(malloc(90));
    free(own);
}

/* Apart, because the loader allocates the storage in here. */
__attribute__((noinline)) static void touch(size_t size) { local[size % sizeof local]++; }

__attribute__((noinline)) void *NAME(size_t size) {
    touch(size);
    void *p = malloc(size);
    memset(p, 1, size);
    return p;
}
