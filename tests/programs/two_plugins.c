/* Promise: blocks made by two libraries that were loaded at one address, one after the other, are told apart.
 * `two_plugins A B ROUNDS`: in turn load A, let it make 10 blocks, unload it; then B. A thread frees all. Says whether
 * both were loaded at one address. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *block[20];
static void *address[2];

__attribute__((noinline)) void *free_both(void *unused) {
    for (int i = 0; i < 20; i++) free(block[i]);
    __asm__ volatile("" ::: "memory");
    return unused;
}

static int use(const char *path, const char *name, int which) {
    void *plugin = dlopen(path, RTLD_NOW);
    if (!plugin) return puts(dlerror()), 0;
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(plugin, name);
    address[which] = (void *)make;
    for (int i = 0; i < 10; i++) block[which * 10 + i] = make(64 + which);
    return dlclose(plugin) == 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int together = 0;
    for (int r = 0; r < atoi(argv[3]); r++) {
        if (!use(argv[1], "make_in_a", 0) || !use(argv[2], "make_in_b", 1)) return 1;
        together += address[0] == address[1];
        pthread_t t;
        pthread_create(&t, NULL, free_both, NULL);
        pthread_join(t, NULL);
    }
    puts(together ? "one address" : "two addresses");
    return 0;
}
