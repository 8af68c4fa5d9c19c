/* Promise: coroutine stacks that come and go, malloc'ed and mmapped, switched between threads too, give right counts:
 * ROUNDS coroutines; each makes blocks with make_inside on its own stack at several depths, yields twice and frees them
 * with the other half of the rounds resumed by another thread. A mapped stack is unmapped at once. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { ROUNDS = 400, STACK = 64 << 10, BLOCKS = 5 };

struct coroutine {
    ucontext_t self, caller;
    int done;
};

static _Thread_local struct coroutine *volatile current;

__attribute__((noinline)) void *make_inside(int depth) {
    if (depth > 0) {
        void *p = make_inside(depth - 1);
        __asm__ volatile("" ::: "memory");
        return p;
    }
    void *p = malloc(56);
    __asm__ volatile("" ::: "memory");
    return p;
}

__attribute__((noinline)) static struct coroutine *me(void) { return current; }
__attribute__((noinline)) static void yield(struct coroutine *c) { swapcontext(&c->self, &c->caller); }

static void body(void) {
    struct coroutine *c = me();
    void *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) block[i] = make_inside(i * 3);
    yield(c);
    free(malloc(70));
    yield(c);
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
    c->done = 1;
    yield(c);
}

static void resume(struct coroutine *c) {
    current = c;
    swapcontext(&c->caller, &c->self);
}

static void *resume_twice(void *c) {
    resume(c);
    resume(c);
    return NULL;
}

int main(void) {
    int done = 0;
    for (int r = 0; r < ROUNDS; r++) {
        char *stack = r % 2 ? malloc(STACK) : mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct coroutine *c = calloc(1, sizeof *c);
        getcontext(&c->self);
        c->self.uc_stack.ss_sp = stack;
        c->self.uc_stack.ss_size = STACK;
        makecontext(&c->self, body, 0);
        resume(c);
        if (r % 4 < 2) {
            pthread_t t;
            pthread_create(&t, NULL, resume_twice, c);
            pthread_join(t, NULL);
        } else {
            resume_twice(c);
        }
        done += c->done;
        free(c);
        if (r % 2)
            free(stack);
        else
            munmap(stack, STACK);
    }
    printf("%d coroutines\n", done);
    return 0;
}
