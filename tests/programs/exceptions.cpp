// Promise: exceptions pass through frames that allocate, on several threads, while stacks are taken; nothing leaks and
// nothing changes. Each of 3 threads throws 2,000 times through 20 frames that hold strings.
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

__attribute__((noinline)) static int descend(int depth, int round) {
    std::string local(40 + depth, 'x');
    std::vector<std::string> more(2, local);
    if (depth == 20) throw std::runtime_error(local + std::to_string(round));
    return descend(depth + 1, round) + static_cast<int>(more.size());
}

int main() {
    std::atomic<long> caught{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; i++) try {
                    descend(0, i);
                } catch (const std::exception &e) {
                    caught += std::string(e.what()).size();
                }
        });
    for (auto &t : threads) t.join();
    std::printf("%ld\n", caught.load());
}
