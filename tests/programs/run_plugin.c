/* A C program without a C++ runtime opens plug-ins, one after the other, and calls their `run`.
 * `run_plugin PLUGIN...` */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW);
        if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
        void (*run)(void) = (void (*)(void))dlsym(plugin, "run");
        run();
    }
    return 0;
}
