/* Promise: allocating needs little stack, at the first event of a thread too. `small_stacks thread`: threads with the
 * least stack that the libc allows; `handler`: a handler on an alternate stack of 8 KiB (SIGSTKSZ of old);
 * `coroutine`: a coroutine on 8 KiB. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { SMALL = 8 << 10 };
static int handled, switched;
static ucontext_t caller, self;

static void *thread(void *p) {
    free(p);
    for (int i = 0; i < 10; i++) free(realloc(calloc(1, 100), 300));
    return malloc(20);
}

/* A stack with a page before it that nobody may touch. */
static char *guarded(void) {
    char *p = mmap(NULL, SMALL + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(p, 4096, PROT_NONE);
    return p + 4096;
}

static void handler(int n) {
    (void)n;
    free(malloc(50));
    handled++;
}

static void *signalled(void *unused) {
    stack_t alternate = {.ss_sp = guarded(), .ss_size = SMALL};
    sigaltstack(&alternate, NULL);
    pthread_kill(pthread_self(), SIGUSR1); /* the thread's first event is in the handler */
    for (int i = 0; i < 10; i++) raise(SIGUSR1);
    return unused;
}

static void coroutine(void) {
    free(malloc(60));
    switched++;
    swapcontext(&self, &caller);
}

static void *switches(void *unused) {
    getcontext(&self);
    self.uc_stack.ss_sp = guarded();
    self.uc_stack.ss_size = SMALL;
    makecontext(&self, coroutine, 0);
    swapcontext(&caller, &self); /* the thread's first event is in the coroutine */
    return unused;
}

int main(int argc, char **argv) {
    int how = argc > 1 ? argv[1][0] : 't';
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    pthread_attr_t least;
    pthread_attr_init(&least);
    if (how == 't') pthread_attr_setstacksize(&least, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        void *p;
        void *(*start)(void *) = how == 't' ? thread : how == 'h' ? signalled : switches;
        if (pthread_create(&t, &least, start, how == 't' ? malloc(30) : NULL)) return 1;
        pthread_join(t, &p);
        free(p);
    }
    printf("%d handled, %d switched\n", handled, switched);
    return 0;
}
