/* Promise: parent, child and grandchild each write a profile of their own and count only their own blocks.
 * Generation g (0, 1, 2) makes 1000 * (g + 1) blocks with make_g0, make_g1 or make_g2 and frees them. The children end
 * by exit. Prints nothing. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAKE(g)                                                                                                        \
    __attribute__((noinline)) void *make_g##g(void) {                                                                  \
        void *p = malloc(64);                                                                                          \
        __asm__ volatile("" ::: "memory");                                                                             \
        return p;                                                                                                      \
    }
MAKE(0)
MAKE(1)
MAKE(2)

static void work(void *(*make)(void), int n) {
    for (int i = 0; i < n; i++) free(make());
}

static int wait_for(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void) {
    work(make_g0, 500);
    pid_t child = fork();
    if (child == 0) {
        work(make_g1, 2000);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            work(make_g2, 3000);
            exit(0);
        }
        exit(!wait_for(grandchild));
    }
    int ok = wait_for(child);
    work(make_g0, 500);
    return !ok;
}
