/* Promise: in a program that locks all its memory, future mappings too, the recorder's tables do not become resident by
 * the gigabyte. Prints the resident peak in KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

int main(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) return 3;
    static void *block[10000];
    for (int i = 0; i < 10000; i++) block[i] = malloc(100 + i);
    for (int i = 0; i < 10000; i++) free(block[i]);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld\n", usage.ru_maxrss);
    return 0;
}
