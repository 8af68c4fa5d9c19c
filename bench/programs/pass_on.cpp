// Producers allocate, consumers free: every block is freed on another thread. Blocks travel in batches of
// 1024 through a bounded queue, so that its lock is taken once for 2048 events.
//
//   pass_on EVENTS PAIRS        PAIRS producers and as many consumers on one queue
#include "workload.h"
#include "frames.h"

#include <pthread.h>

namespace {

constexpr unsigned BATCH = 1024, SLOTS = 16, VISIT = 16, MOST = 8;

struct Message {
    uint64_t id, body[7];
};

struct Batch {
    Message *message[BATCH];
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
Batch slots[SLOTS];
unsigned head, filled, producers_left;

void put(const Batch &batch) {
    pthread_mutex_lock(&lock);
    while (filled == SLOTS) pthread_cond_wait(&not_full, &lock);
    slots[(head + filled++) % SLOTS] = batch;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

bool take(Batch &batch) {
    pthread_mutex_lock(&lock);
    while (filled == 0 && producers_left != 0) pthread_cond_wait(&not_empty, &lock);
    bool got = filled != 0;
    if (got) {
        batch = slots[head];
        head = (head + 1) % SLOTS;
        filled--;
        pthread_cond_signal(&not_full);
    }
    pthread_mutex_unlock(&lock);
    return got;
}

struct Side {
    pthread_t thread;
    unsigned number;
    uint64_t batches; // to make, or taken
    uint64_t random, sum;
    Batch batch;
    unsigned at;
};

void allocate_some(void *context) {
    Side &side = *static_cast<Side *>(context);
    for (unsigned n = 0; n < VISIT; n++) {
        Message *message = new Message;
        message->id = side.at;
        message->body[6] = side.batches;
        side.batch.message[side.at++] = message;
    }
}

void free_some(void *context) {
    Side &side = *static_cast<Side *>(context);
    for (unsigned n = 0; n < VISIT; n++) {
        Message *message = side.batch.message[side.at++];
        side.sum += message->id;
        delete message;
    }
}

// A visit of `leaf` 20 to 30 frames deep for every sixteen blocks of the batch.
void go_through(Side &side, leaf_fn leaf) {
    side.at = 0;
    while (side.at < BATCH) {
        uint64_t r = next_random(&side.random);
        at_depth(14 + static_cast<unsigned>((r >> 32) % 11), static_cast<unsigned>(r >> 62), leaf, &side);
    }
}

void name_thread(const char *role, unsigned number) {
    char name[16];
    snprintf(name, sizeof name, "%s-%u", role, number);
    pthread_setname_np(pthread_self(), name);
}

void *produce(void *context) {
    Side &side = *static_cast<Side *>(context);
    name_thread("producer", side.number);
    workload_pin(side.number);
    for (uint64_t n = 0; n < side.batches; n++) {
        go_through(side, allocate_some);
        put(side.batch);
    }
    pthread_mutex_lock(&lock);
    if (--producers_left == 0) pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&lock);
    return nullptr;
}

void *consume(void *context) {
    Side &side = *static_cast<Side *>(context);
    name_thread("consumer", side.number);
    workload_pin(side.number + 1); // not where its producer is
    while (take(side.batch)) {
        go_through(side, free_some);
        side.batches++;
    }
    return nullptr;
}

Side sides[2 * MOST];

} // namespace

int main(int argc, char **argv) {
    workload_start();
    uint64_t events = workload_amount(argc, argv);
    unsigned pairs = argc > 2 ? static_cast<unsigned>(atoi(argv[2])) : 1;
    if (pairs < 1 || pairs > MOST) return 2;
    uint64_t batches = events / (2ull * BATCH * pairs);
    if (batches == 0) batches = 1;
    producers_left = pairs;
    for (unsigned i = 0; i < 2 * pairs; i++) {
        Side &side = sides[i];
        side.number = i / 2;
        side.random = 0x9e3779b97f4a7c15ull + i;
        side.batches = i % 2 == 0 ? batches : 0;
        if (pthread_create(&side.thread, nullptr, i % 2 == 0 ? produce : consume, &side) != 0) return 1;
    }
    uint64_t taken = 0;
    for (unsigned i = 0; i < 2 * pairs; i++) {
        pthread_join(sides[i].thread, nullptr);
        if (i % 2 == 1) taken += sides[i].batches;
    }
    if (taken != batches * pairs) return 1;
    counts made = {};
    made.allocs = made.frees = made.remote = taken * BATCH;
    made.threads = 2 * pairs;
    made.busy = 2 * pairs;
    return workload_report(&made);
}
