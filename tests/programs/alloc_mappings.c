/* Promise: giving memory back does not cut mappings into thousands. Fills 200 MiB with blocks of 4000 bytes and of
 * 64 KiB, frees every other one, gives back, fills the holes, and so on. Prints the largest number of mappings. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 30000, LARGE = 1500 };
static char *small[SMALL], *large[LARGE];

static int mappings(void) {
    int n = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    while ((c = getc(f)) != EOF) n += c == '\n';
    fclose(f);
    return n;
}

int main(void) {
    int most = 0;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < SMALL; i++)
            if (!small[i]) memset(small[i] = malloc(4000), 1, 4000);
        for (int i = 0; i < LARGE; i++)
            if (!large[i]) memset(large[i] = malloc(65536), 1, 65536);
        for (int i = round % 2; i < SMALL; i += 2) free(small[i]), small[i] = NULL;
        for (int i = round % 2; i < LARGE; i += 2) free(large[i]), large[i] = NULL;
        malloc_trim(0);
        if (mappings() > most) most = mappings();
    }
    printf("%d\n", most);
    return 0;
}
