/* Promise: a process that hardly allocates is small. Prints its resident peak in KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    free(malloc(100));
    char text[4096] = {0};
    FILE *f = fopen("/proc/self/status", "r");
    fread(text, 1, sizeof text - 1, f);
    fclose(f);
    printf("%d\n", atoi(strstr(text, "VmHWM:") + 6));
    return 0;
}
