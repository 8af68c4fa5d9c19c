/* A malloc for LD_PRELOAD that may be called from signal handlers: blocks come from one bump pointer and never come
 * back (16 bytes hold the size). Only what signal_storm.c needs. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic(char *) next;
static char *end;
enum { ROOM = 1 << 30 };

__attribute__((constructor)) static void reserve(void) {
    char *none = NULL;
    char *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    end = room + ROOM;
    if (!atomic_compare_exchange_strong(&next, &none, room)) munmap(room, ROOM);
}

void *malloc(size_t size) {
    if (!next) reserve();
    size_t whole = (size + 31) & ~(size_t)15;
    char *p = atomic_fetch_add(&next, whole);
    if (p + whole > end) return NULL;
    *(size_t *)p = size;
    return p + 16;
}

void free(void *p) { (void)p; }

void *calloc(size_t n, size_t size) { return malloc(n * size); /* fresh pages are zero */ }

void *realloc(void *p, size_t size) {
    char *q = malloc(size);
    if (p && q) {
        size_t old = *(size_t *)((char *)p - 16);
        memcpy(q, p, old < size ? old : size);
    }
    return q;
}

size_t malloc_usable_size(void *p) { return p ? *(size_t *)((char *)p - 16) : 0; }
