// A C++ plug-in whose constructor waits for a thread of its own, which uses `new`, while the loader's lock is
// held. Promise: nobody hangs, and `run` prints "run".
#include <cstdio>
#include <thread>

__attribute__((constructor)) static void start() {
    std::thread thread([] {
        int *volatile block = new int(3);
        delete block;
    });
    thread.join();
}

extern "C" void run() { std::puts("run"); }
