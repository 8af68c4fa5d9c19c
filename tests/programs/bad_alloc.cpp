// Promise: operator new fails as without us: bad_alloc from the throwing forms, null from the others, the new_handler
// called as often, bad_array_new_length where the compiler sees it. Prints all answers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

static int calls;
static void handler() {
    if (++calls % 3 == 0) std::set_new_handler(nullptr);
}

struct Wrong {
    char room[1000];
    Wrong() { throw 42; } // the block is freed by the matching delete
};

template <typename F> static void attempt(const char *what, F f) {
    calls = 0;
    std::set_new_handler(handler);
    const char *answer = "block";
    try {
        void *p = f();
        if (!p) answer = "null";
    } catch (const std::bad_array_new_length &) {
        answer = "bad_array_new_length";
    } catch (const std::bad_alloc &e) {
        answer = e.what();
    } catch (int) {
        answer = "an int";
    }
    std::printf("%-28s %-22s handler called %d times\n", what, answer, calls);
}

int main() {
    volatile std::size_t most = PTRDIFF_MAX, all = SIZE_MAX;
    const std::align_val_t align{64};
    attempt("new", [&] { return ::operator new(most); });
    attempt("new all", [&] { return ::operator new(all); });
    attempt("new nothrow", [&] { return ::operator new(most, std::nothrow); });
    attempt("new[]", [&] { return ::operator new[](most); });
    attempt("new[] nothrow", [&] { return ::operator new[](most, std::nothrow); });
    attempt("new aligned", [&] { return ::operator new(most, align); });
    attempt("new aligned nothrow", [&] { return ::operator new(most, align, std::nothrow); });
    attempt("new[] aligned", [&] { return ::operator new[](most, align); });
    attempt("new[] aligned nothrow", [&] { return ::operator new[](most, align, std::nothrow); });
    attempt("new T[n]", [&] { return new long[most]; });
    attempt("constructor throws", [&] { return new Wrong; });
    attempt("constructor throws, nothrow", [&] { return new (std::nothrow) Wrong; });
    std::set_new_handler([]() { throw std::bad_alloc(); });
    try {
        ::operator delete(::operator new(most));
    } catch (const std::bad_alloc &) {
        std::puts("the handler's own exception passed");
    }
    void *zero = ::operator new(0), *other = ::operator new(0);
    std::puts(zero && zero != other ? "new(0) is unique" : "new(0) is not unique");
    ::operator delete(zero);
    ::operator delete(other);
    ::operator delete(nullptr);
    ::operator delete[](nullptr, std::nothrow);
}
