/* Promise: constructors and destructors of libraries that the program is linked to are recorded. Linked with plugin.c;
 * makes 10 blocks through it and frees them. */
#include <stdlib.h>

void *plugin_make(size_t size);

int main(void) {
    for (int i = 0; i < 10; i++) free(plugin_make(50));
    return 0;
}
