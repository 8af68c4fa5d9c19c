/* A coroutine's stack that lies above the thread's own is unmapped after an allocation on it: the next
 * allocation of the thread must not look at it any more. Promise: prints "alive". */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 16 };
static ucontext_t thread_context, coroutine_context;
static void *volatile keep;

static __attribute__((noinline)) void deep(int n) {
    volatile char room[64];
    room[0] = (char)n;
    if (n) deep(n - 1);
    else keep = malloc(40);
    room[1] = room[0];
}

static void coroutine(void) { deep(5); }

static void *run(void *unused) {
    char here;
    keep = malloc(8);
    char *stack = MAP_FAILED;
    char *above = (char *)(((size_t)&here + (64ul << 20)) & ~0xffful);
    for (; stack == MAP_FAILED; above += 1 << 20)
        stack = mmap(above, STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    for (int i = 0; i < 3; i++) {
        keep = malloc(8);
        getcontext(&coroutine_context);
        coroutine_context.uc_stack.ss_sp = stack;
        coroutine_context.uc_stack.ss_size = STACK;
        coroutine_context.uc_link = &thread_context;
        makecontext(&coroutine_context, coroutine, 0);
        swapcontext(&thread_context, &coroutine_context);
    }
    munmap(stack, STACK);
    keep = malloc(24);
    puts("alive");
    return unused;
}

int main(void) {
    /* Room above the thread's stack. */
    char *room = mmap(NULL, 256 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    munmap(room, 256 << 20);
    pthread_join(thread, NULL);
    return 0;
}
