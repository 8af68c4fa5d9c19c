/* A child for other tests: makes and frees 300 blocks, says so and ends well. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 300; i++) free(malloc(50));
    puts("300 blocks");
    return 0;
}
