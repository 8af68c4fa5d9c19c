/* Phases of four worker threads, joined at the end of each: every worker builds a forest of binary trees,
 * sums it up a few times and drops it, some rounds of that; each block is freed at home.
 *
 *   fork_join EVENTS
 */
#include "workload.h"
#include "frames.h"

#include <pthread.h>

enum { WORKERS = 4, PHASES = 4, HEIGHT = 13, NODES_IN_TREE = (1 << HEIGHT) - 1, TREES = 12, WALKS = 4 };

struct tree {
    struct tree *child[2];
    uint64_t payload[6];
};

/* One call site for both children: the stacks differ by depth, not by the way down. */
FRAME static struct tree *build(int height) {
    struct tree *tree = malloc(sizeof *tree);
    for (int i = 0; i < 6; i++) tree->payload[i] = (uint64_t)(height + i);
    for (volatile int side = 0; side < 2; side++) tree->child[side] = height > 1 ? build(height - 1) : NULL;
    return tree;
}

FRAME static uint64_t sum(const struct tree *tree) {
    uint64_t total = tree->payload[0] ^ tree->payload[5];
    for (volatile int side = 0; side < 2; side++)
        if (tree->child[side]) total += sum(tree->child[side]);
    return total;
}

FRAME static void drop(struct tree *tree) {
    for (volatile int side = 0; side < 2; side++)
        if (tree->child[side]) drop(tree->child[side]);
    free(tree);
}

struct worker {
    pthread_t thread;
    unsigned number, at;
    uint64_t rounds, total;
    struct tree *forest[TREES];
};

static void build_one(void *context) {
    struct worker *worker = context;
    worker->forest[worker->at] = build(HEIGHT);
}

static void drop_one(void *context) {
    struct worker *worker = context;
    drop(worker->forest[worker->at]);
}

static void *work(void *context) {
    struct worker *worker = context;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", worker->number);
    pthread_setname_np(pthread_self(), name);
    workload_pin(worker->number);
    for (uint64_t round = 0; round < worker->rounds; round++) {
        for (worker->at = 0; worker->at < TREES; worker->at++) at_depth(10, worker->at, build_one, worker);
        for (int n = 0; n < WALKS; n++)
            for (unsigned i = 0; i < TREES; i++) worker->total += sum(worker->forest[i]);
        for (worker->at = 0; worker->at < TREES; worker->at++) at_depth(10, worker->at, drop_one, worker);
    }
    return NULL;
}

static struct worker workers[WORKERS];

int main(int argc, char **argv) {
    workload_start();
    uint64_t rounds = workload_amount(argc, argv) / (2ull * NODES_IN_TREE * TREES * WORKERS * PHASES);
    if (rounds == 0) rounds = 1;
    for (int phase = 0; phase < PHASES; phase++) {
        for (unsigned i = 0; i < WORKERS; i++) {
            workers[i].rounds = rounds;
            workers[i].number = i;
            if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) return 1;
        }
        for (unsigned i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    }
    uint64_t blocks = rounds * TREES * NODES_IN_TREE * WORKERS * PHASES;
    struct counts counts = {.allocs = blocks, .frees = blocks, .threads = WORKERS * PHASES, .busy = WORKERS};
    return workload_report(&counts);
}
