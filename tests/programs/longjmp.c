/* Promise: longjmp and siglongjmp across frames, out of handlers and out of qsort's callback, never disturb the stacks
 * that follow. JUMPS jumps, a block made before and after each. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUMPS = 3000 };
static jmp_buf back;
static sigjmp_buf signal_back;

__attribute__((noinline)) static int descend(int n, int how) {
    volatile char room[64];
    memset((char *)room, n, sizeof room);
    void *p = malloc(30);
    free(p);
    if (n == 0) longjmp(back, how);
    return descend(n - 1, how) + room[3];
}

static int compare(const void *a, const void *b) {
    free(malloc(10));
    if (*(const int *)a == 7) longjmp(back, 2);
    return *(const int *)a - *(const int *)b;
}

static void handler(int n) {
    (void)n;
    siglongjmp(signal_back, 1);
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    volatile int jumps = 0;
    for (int i = 0; i < JUMPS; i++) {
        void *volatile before = malloc(20);
        if (setjmp(back) == 0) {
            if (i % 3 == 0) descend(1 + i % 40, 1);
            if (i % 3 == 1) {
                int numbers[] = {3, 7, 1, 9, 2, 8};
                qsort(numbers, 6, sizeof *numbers, compare);
            }
            if (i % 3 == 2) {
                if (sigsetjmp(signal_back, 1) == 0) raise(SIGUSR1);
                longjmp(back, 3);
            }
        } else {
            jumps++;
        }
        free(before);
        free(malloc(24));
    }
    printf("%d jumps\n", jumps);
    return 0;
}
