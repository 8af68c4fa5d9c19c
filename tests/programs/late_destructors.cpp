// Promise: C++ thread-locals with destructors, registered before and after the thread's first allocation, may allocate
// and free; so may the destructors of statics. 100 threads make and free 3 + 3 blocks each in destructors.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

__attribute__((noinline)) char *make_late() {
    char *p = new char[60];
    __asm__ volatile("" ::: "memory");
    return p;
}

struct Late {
    void touch() { touched = true; }
    ~Late() {
        for (int i = 0; i < 3; i++) delete[] make_late();
    }
    bool touched = false;
};

thread_local Late before, after;
static std::string a_static(1000, 'x');
struct Static {
    ~Static() { delete[] make_late(); }
} static_object;

int main() {
    for (int i = 0; i < 100; i++)
        std::thread([] {
            before.touch();
            void *volatile p = std::malloc(10);
            std::free(p);
            after.touch();
        }).join();
    std::printf("%zu\n", a_static.size());
}
