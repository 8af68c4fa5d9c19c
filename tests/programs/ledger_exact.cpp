// Promise: the account moves by exactly what malloc_usable_size says of a block from any form of operator new, and back
// by any form of operator delete, whether the allocator's operators come through malloc or not. An operator that throws
// moves nothing. Prints how many steps were right.
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <string>
#include <vector>

extern "C" __attribute__((weak)) unsigned long long homefree_ledger_current();

static long long start;
static long steps;

static void expect(const char *what, long long bytes) {
    long long now = (long long)homefree_ledger_current() - start;
    steps++;
    if (now == bytes) return;
    std::fprintf(stderr, "%s: %lld held, not %lld\n", what, now, bytes);
    std::exit(1);
}

static void *checked(const char *what, void *p) {
    expect(what, (long long)malloc_usable_size(p));
    return p;
}

int main() {
    if (!homefree_ledger_current) {
        std::puts("no library");
        return 0;
    }
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    std::setvbuf(stderr, nullptr, _IONBF, 0);
    try { // The runtime's own first time.
        ::operator delete(::operator new((size_t)-1 / 4));
    } catch (const std::bad_alloc &) {
    }
    start = (long long)homefree_ledger_current();
    for (size_t size = 1; size < 400000; size = size * 3 / 2 + 1) {
        auto align = std::align_val_t(128);
        ::operator delete(checked("new", ::operator new(size)));
        ::operator delete[](checked("new[]", ::operator new[](size)));
        ::operator delete(checked("new", ::operator new(size)), size);
        ::operator delete[](checked("new[]", ::operator new[](size)), size);
        ::operator delete(checked("nothrow", ::operator new(size, std::nothrow)), std::nothrow);
        ::operator delete[](checked("nothrow[]", ::operator new[](size, std::nothrow)), std::nothrow);
        ::operator delete(checked("aligned", ::operator new(size, align)), align);
        ::operator delete[](checked("aligned[]", ::operator new[](size, align)), align);
        ::operator delete(checked("aligned", ::operator new(size, align)), size, align);
        ::operator delete[](checked("aligned[]", ::operator new[](size, align)), size, align);
        ::operator delete(checked("both", ::operator new(size, align, std::nothrow)), align, std::nothrow);
        ::operator delete[](checked("both[]", ::operator new[](size, align, std::nothrow)), align, std::nothrow);
        // Across the languages, as it should not be but is.
        std::free(checked("new", ::operator new(size)));
        ::operator delete(checked("malloc", std::malloc(size)));
        expect("deleted", 0);
    }
    int thrown = 0;
    for (int i = 0; i < 10; i++) try {
            ::operator delete[](::operator new[]((size_t)-1 / 4));
        } catch (const std::bad_alloc &) {
            thrown++;
        }
    if (thrown != 10 || ::operator new((size_t)-1 / 4, std::nothrow)) return 1;
    expect("thrown", 0);
    {
        std::vector<std::string> words;
        for (int i = 0; i < 1000; i++) words.emplace_back(100 + i, 'x');
    }
    expect("containers", 0);
    std::printf("%ld exact\n", steps);
}
