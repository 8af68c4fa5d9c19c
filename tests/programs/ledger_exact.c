/* Promise: the account moves by exactly what malloc_usable_size says of a block, whatever call gave it and whatever its
 * size and alignment; a call that fails moves nothing; what is freed takes away what it added. Asks the library itself
 * after every step. `ledger_exact mapped N` maps blocks of N bytes and more alone, as M_MMAP_THRESHOLD can ask for; `ledger_exact jemalloc` leaves out pvalloc, which jemalloc has not.
 * Prints how many steps were right. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) unsigned long long homefree_ledger_current(void);

static long long start;
static long steps;
static int has_pvalloc = 1;

static long long held(void) { return (long long)homefree_ledger_current() - start; }

static void expect(const char *what, size_t size, long long bytes) {
    long long now = held();
    steps++;
    if (now == bytes) return;
    fprintf(stderr, "%s of %zu: %lld held, not %lld\n", what, size, now, bytes);
    exit(1);
}

static void *checked(const char *what, size_t size, void *p) {
    if (!p) {
        fprintf(stderr, "%s of %zu failed\n", what, size);
        exit(1);
    }
    memset(p, 1, size);
    expect(what, size, (long long)malloc_usable_size(p));
    return p;
}

static void every_form(size_t size) {
    free(checked("malloc", size, malloc(size)));
    expect("free", size, 0);
    free(checked("calloc", size, calloc(1, size)));
    free(checked("realloc of null", size, realloc(NULL, size)));
    free(checked("valloc", size, valloc(size)));
    if (has_pvalloc) free(checked("pvalloc", size, pvalloc(size)));
    for (size_t align = 8; align <= 65536; align *= 2) {
        void *p = NULL;
        free(checked("memalign", size, memalign(align, size)));
        free(checked("aligned_alloc", size, aligned_alloc(align, size)));
        if (posix_memalign(&p, align, size)) exit(1);
        if ((uintptr_t)p % align) exit(1);
        free(checked("posix_memalign", size, p));
        expect("aligned free", size, 0);
    }
}

static void reallocs(size_t size) {
    static const size_t others[] = {1, 24, 25, 1000, 5000, 70000, 200000, 3000000};
    for (size_t align = 0; align <= 4096; align = align ? align * 8 : 8)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            char *p = align ? memalign(align, size) : malloc(size);
            p = checked("realloc", others[i], realloc(p, others[i]));
            /* A call that fails moves nothing, and the block stays. */
            volatile size_t much = SIZE_MAX / 2;
            if (realloc(p, much / 2) || errno != ENOMEM) exit(1);
            expect("failed realloc", others[i], (long long)malloc_usable_size(p));
            if (reallocarray(p, much, 4)) exit(1);
            expect("failed reallocarray", others[i], (long long)malloc_usable_size(p));
            p = checked("realloc back", size, realloc(p, size));
            free(p);
            expect("free after realloc", size, 0);
        }
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "mapped")) mallopt(M_MMAP_THRESHOLD, atoi(argv[2]));
    has_pvalloc = argc < 2 || strcmp(argv[1], "jemalloc");
    if (!homefree_ledger_current) {
        puts("no library");
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stderr, NULL, _IONBF, 0);
    /* What is allocated by a first call stays out of it. */
    free(malloc(1));
    free(calloc(1, 1));
    free(memalign(64, 1));
    start = (long long)homefree_ledger_current();
    for (size_t size = 0; size < 600; size++) every_form(size);
    for (size_t size = 600; size < 300000; size = size * 5 / 4) every_form(size);
    for (size_t size = 1; size < 300000; size = size * 2 + 7) reallocs(size);
    volatile size_t much = SIZE_MAX / 2;
    if (malloc(much / 2) || calloc(much, 4)) return 1;
    expect("failed malloc", 0, 0);
    free(NULL);
    expect("free of null", 0, 0);
    void *many[5000];
    long long sum = 0;
    for (int i = 0; i < 5000; i++) {
        many[i] = malloc(33 + i);
        sum += (long long)malloc_usable_size(many[i]);
    }
    expect("many", 5000, sum);
    for (int i = 0; i < 5000; i++) free(many[(i * 7) % 5000]);
    expect("none", 0, 0);
    printf("%ld exact\n", steps);
    return 0;
}
