// Promise: a std::thread without a name takes the role of what it runs, not of the library's trampoline.
#include <cstdio>
#include <cstdlib>
#include <thread>

static void *block[30];

void drain_queue(int from) {
    for (int i = from; i < from + 10; i++) std::free(block[i]);
}

struct Flusher {
    void operator()() const { drain_queue(10); }
};

int main() {
    for (void *&p : block) p = std::malloc(50);
    std::thread(drain_queue, 0).join();
    std::thread(Flusher()).join();
    std::thread([] { drain_queue(20); }).join();
    std::puts("3 threads");
}
