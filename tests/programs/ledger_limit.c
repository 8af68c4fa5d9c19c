/* Promise: past the hard limit requests get NULL and ENOMEM, from every call, posix_memalign leaves its place and errno alone,
 * small ones may use the reserve, and after a free there is room again. `ledger_limit BYTES`. Prints what was held. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((weak)) unsigned long long homefree_ledger_current(void);

static void *kept[100000];

int main(int argc, char **argv) {
    if (argc < 2 || !homefree_ledger_current) return 2;
    unsigned long long limit = strtoull(argv[1], NULL, 10), most;
    setvbuf(stdout, NULL, _IONBF, 0);
    int n = 0;
    errno = 0;
    while (n < 100000 && (kept[n] = malloc(10000))) n++;
    if (errno != ENOMEM) return 3;
    most = homefree_ledger_current();
    /* Not past it, and not far from it: less than a block and what is kept as credit. */
    if (most > limit || most < limit - limit / 16 - 20000) {
        printf("%llu of %llu\n", most, limit);
        return 4;
    }
    void *place = &most;
    errno = 5;
    if (posix_memalign(&place, 64, 100000) != ENOMEM || place != &most || errno != 5) return 5;
    errno = 0;
    if (calloc(100, 1000) || errno != ENOMEM) return 6;
    errno = 0;
    if (realloc(kept[0], 1000000) || errno != ENOMEM) return 7;
    errno = 0;
    if (memalign(64, 100000) || aligned_alloc(64, 100000) || valloc(100000) || pvalloc(100000)) return 8;
    if (errno != ENOMEM || reallocarray(kept[0], 1000, 1000)) return 9;
    /* Small ones still come, for a while. */
    int small = 0;
    while (small < 100000 && malloc(100)) small++;
    if (small < 100 || small == 100000) return 10;
    if (homefree_ledger_current() > limit + limit / 64 + (64 << 10)) return 11;
    for (int i = 0; i < n; i++) free(kept[i]);
    void *again = malloc(limit / 2);
    if (!again) return 12;
    free(again);
    puts("limited");
    return 0;
}
