/* Promise: what threads do to each other's blocks is in the account to the byte, while they live, after they have ended, and
 * in their late destructors. Each way is done three times; after the first (when the C library has what it keeps of
 * threads), what is held must be the same to the byte, and in between it must be what the blocks are. Prints the way. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) unsigned long long homefree_ledger_current(void);

enum { BLOCKS = 1000, BATCHES = 1000, THREADS = 50 };

static long long held(void) { return homefree_ledger_current ? (long long)homefree_ledger_current() : 0; }

static void fail(const char *what, long long is, long long should) {
    fprintf(stderr, "%s: %lld, not %lld\n", what, is, should);
    exit(1);
}

static void *row[THREADS][BLOCKS];
static pthread_barrier_t turn;

/* With stacks small enough for the C library to keep them all, and what it allocates for each. */
static void start(pthread_t *thread, void *(*f)(void *), void *value) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    if (pthread_create(thread, &small, f, value)) exit(3);
}

static void fill(void **blocks, int n) {
    for (int i = 0; i < n; i++) {
        blocks[i] = malloc(16 + (unsigned)(i * 7919) % 500);
        memset(blocks[i], 1, 16);
    }
}

static void empty(void **blocks, int n) {
    for (int i = 0; i < n; i++) free(blocks[i]);
}

static long long usable(void **blocks, int n) {
    long long sum = 0;
    for (int i = 0; i < n; i++) sum += (long long)malloc_usable_size(blocks[i]);
    return sum;
}

/* A million blocks from one thread to another. */
static void *produce(void *unused) {
    pthread_setname_np(pthread_self(), "producer-1");
    for (int b = 0; b < BATCHES; b++) {
        fill(row[b % 2], BLOCKS);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

static void *consume(void *unused) {
    pthread_setname_np(pthread_self(), "consumer-1");
    for (int b = 0; b < BATCHES; b++) {
        pthread_barrier_wait(&turn);
        empty(row[b % 2], BLOCKS);
    }
    return unused;
}

static void pass(void) {
    pthread_t threads[2];
    pthread_barrier_init(&turn, NULL, 2);
    start(&threads[0], produce, NULL);
    start(&threads[1], consume, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

/* Threads whose only act is to free. */
static void *only_frees(void *blocks) {
    empty(blocks, BLOCKS);
    return NULL;
}

static void free_only(void) {
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) fill(row[t], BLOCKS);
    for (int t = 0; t < THREADS; t++) start(&threads[t], only_frees, row[t]);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

/* Threads that end with their blocks alive. */
static void *only_allocates(void *blocks) {
    pthread_setname_np(pthread_self(), "leaver-7");
    fill(blocks, BLOCKS);
    return NULL;
}

static void die(void) {
    pthread_t threads[THREADS];
    long long before = 0, sum = 0;
    for (int t = 0; t < THREADS; t++) start(&threads[t], only_allocates, row[t]);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    before = held();
    for (int t = 0; t < THREADS; t++) {
        sum += usable(row[t], BLOCKS);
        empty(row[t], BLOCKS);
    }
    if (homefree_ledger_current && before - held() != sum) fail("blocks of the dead", before - held(), sum);
}

/* Destructors that come in every round, and after the library's own. */
static pthread_key_t keys[3];
static void *left[THREADS][4];

static void destroyed(void *value) {
    long t = (long)value & 0xff, round = (long)value >> 8;
    free(malloc(100));
    if (round < 4) {
        if (left[t][round]) free(left[t][round]);
        left[t][round] = malloc(1000 + (size_t)t);
        pthread_setspecific(keys[t % 3], (void *)(t | (round + 1) << 8));
    }
}

static void *has_destructors(void *t) {
    pthread_setspecific(keys[(long)t % 3], (void *)((long)t | 1 << 8));
    return NULL;
}

static void late(void) {
    pthread_t threads[THREADS];
    for (long t = 0; t < THREADS; t++) start(&threads[t], has_destructors, (void *)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

/* Threads that wait with what they have not settled. */
static void *waits(void *blocks) {
    empty(blocks, BLOCKS / 2);
    fill(blocks, BLOCKS / 4);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    empty(blocks, BLOCKS / 4);
    return NULL;
}

static void parked(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&turn, NULL, THREADS + 1);
    long long sum = 0;
    for (int t = 0; t < THREADS; t++) fill(row[t], BLOCKS);
    for (int t = 0; t < THREADS; t++) start(&threads[t], waits, row[t]);
    pthread_barrier_wait(&turn);
    long long before = held();
    for (int t = 0; t < THREADS; t++) sum += usable(row[t] + BLOCKS / 2, BLOCKS / 2);
    for (int t = 0; t < THREADS; t++) empty(row[t] + BLOCKS / 2, BLOCKS / 2);
    if (homefree_ledger_current && before - held() != sum) fail("while parked", before - held(), sum);
    pthread_barrier_wait(&turn);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*way)(void);
    } ways[] = {{"pass", pass}, {"free_only", free_only}, {"die", die}, {"late", late}, {"parked", parked}};
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stderr, NULL, _IONBF, 0);
    for (int k = 0; k < 3; k++) pthread_key_create(&keys[k], destroyed);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (argc < 2 || strcmp(argv[1], ways[w].name)) continue;
        ways[w].way();
        long long first = held();
        for (int i = 0; i < 2; i++) {
            ways[w].way();
            if (held() != first) fail(ways[w].name, held(), first);
        }
        printf("%s\n", ways[w].name);
        return 0;
    }
    return 2;
}
