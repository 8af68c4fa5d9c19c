/* Promise: a handler on an alternate stack may allocate (the signal is raised, so the heap is whole), and so may code
 * after a stack overflow was caught there. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sigjmp_buf back;
static int overflows, raised;

static void on_usr1(int n) {
    (void)n;
    for (int i = 0; i < 10; i++) free(malloc(100));
    raised++;
}

static void on_segv(int n) {
    (void)n;
    free(malloc(200));
    overflows++;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static int overflow(int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return overflow(n + 1) + room[0];
}

int main(void) {
    stack_t alternate = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigaltstack(&alternate, NULL);
    struct sigaction usr1 = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    struct sigaction segv = {.sa_handler = on_segv, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGUSR1, &usr1, NULL);
    sigaction(SIGSEGV, &segv, NULL);
    for (int i = 0; i < 50; i++) raise(SIGUSR1);
    for (int i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0) overflow(0);
    printf("%d raised, %d overflows\n", raised, overflows);
    return 0;
}
