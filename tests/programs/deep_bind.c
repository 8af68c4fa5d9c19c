/* Promise: a library that binds the libc's own free (RTLD_DEEPBIND) and frees our blocks with it does no harm: it goes
 * past the recorder, which sees the address again when it is given out anew. `deep_bind PLUGIN`: 1000 blocks
 * (make_seen) are freed by the plugin, 1000 more, at the same addresses, by the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *block[1000];

__attribute__((noinline)) void make_seen(void) {
    for (int i = 0; i < 1000; i++) block[i] = malloc(48);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    if (!plugin) return puts(dlerror()), 1;
    void (*release)(void *) = (void (*)(void *))dlsym(plugin, "plugin_release");
    make_seen();
    for (int i = 0; i < 1000; i++) release(block[i]);
    make_seen();
    for (int i = 0; i < 1000; i++) free(block[i]);
    puts("2000 blocks");
    return 0;
}
