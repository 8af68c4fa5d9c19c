/* The library of ledger_exit.c: its destructor runs after that of a preloaded library. */
#include <stdlib.h>
#include <string.h>

static int number;
static void *volatile kept;

void set_number(int n) { number = n; }

void keep_some(int n) {
    for (int i = 0; i < n; i++) {
        kept = malloc(1000);
        memset(kept, 1, 1000);
    }
}

__attribute__((destructor)) static void destroyed(void) { keep_some(number); }
