/* Promise: libraries that want a place in the static thread-local block find as much of it as without us.
 * `static_tls PLUGIN…` loads each and says how many could be loaded. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int loaded = 0;
    for (int i = 1; i < argc; i++) loaded += dlopen(argv[i], RTLD_NOW) != NULL;
    printf("%d loaded\n", loaded);
    return 0;
}
