// Promise: as pass_million.c, with `new`, `delete` and std::thread.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

constexpr unsigned OBJECTS = 1000000, BATCH = 250, SLOTS = 64;

struct Object {
    unsigned id;
    char payload[28];
};

static Object *ring[SLOTS][BATCH];
static unsigned head, tail, produced;
static std::mutex lock;
static std::condition_variable changed;

__attribute__((noinline)) Object *make_object(unsigned i) {
    Object *o = new Object;
    o->id = i;
    return o;
}

__attribute__((noinline)) void drop_object(Object *o) {
    delete o;
    __asm__ volatile("" ::: "memory");
}

static void produce(const char *name) {
    pthread_setname_np(pthread_self(), name);
    for (unsigned n = 0; n < OBJECTS / 2 / BATCH; n++) {
        Object *batch[BATCH];
        for (unsigned i = 0; i < BATCH; i++) batch[i] = make_object(i);
        std::unique_lock<std::mutex> hold(lock);
        changed.wait(hold, [] { return head - tail < SLOTS; });
        for (unsigned i = 0; i < BATCH; i++) ring[head % SLOTS][i] = batch[i];
        head++;
        produced += BATCH;
        changed.notify_all();
    }
}

static void consume(const char *name) {
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        Object *batch[BATCH];
        {
            std::unique_lock<std::mutex> hold(lock);
            changed.wait(hold, [] { return head != tail || produced == OBJECTS; });
            if (head == tail) return;
            for (unsigned i = 0; i < BATCH; i++) batch[i] = ring[tail % SLOTS][i];
            tail++;
            changed.notify_all();
        }
        for (Object *o : batch) drop_object(o);
    }
}

int main() {
    std::vector<std::thread> threads;
    threads.emplace_back(produce, "producer-0");
    threads.emplace_back(produce, "producer-1");
    threads.emplace_back(consume, "consumer-0");
    threads.emplace_back(consume, "consumer-1");
    for (auto &t : threads) t.join();
    std::printf("passed %u\n", OBJECTS);
}
