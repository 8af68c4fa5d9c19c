/* Promise: a library with thread-local storage can be loaded, used in many threads and unloaded again and again.
 * `load_plugin PLUGIN ROUNDS`: each round loads it, lets 3 threads make 10 blocks each through it, unloads it and frees
 * the blocks on the main thread: 30 remote frees a round. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *(*make)(size_t);
static void *block[3][10];

static void *user(void *row) {
    for (int i = 0; i < 10; i++) ((void **)row)[i] = make(100);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    for (int r = 0; r < atoi(argv[2]); r++) {
        void *plugin = dlopen(argv[1], RTLD_NOW);
        if (!plugin) return puts(dlerror()), 1;
        make = (void *(*)(size_t))dlsym(plugin, "plugin_make");
        pthread_t t[3];
        for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, user, block[i]);
        for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
        if (dlclose(plugin)) return 1;
        for (int i = 0; i < 30; i++) free(block[i / 10][i % 10]);
    }
    puts("unloaded");
    return 0;
}
