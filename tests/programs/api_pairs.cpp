// Promise: a block from every form of operator new pairs with every form of operator delete that fits it, at home
// (`api_pairs home`) and on another thread (`api_pairs remote`). Prints how many frees it did.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

constexpr int ROUNDS = 100, NEWS = 8, DELETES = 6;
constexpr std::size_t SIZE = 96;
constexpr std::align_val_t ALIGN{64};

static void *allocate(int form) {
    switch (form) {
    case 0: return ::operator new(SIZE);
    case 1: return ::operator new(SIZE, std::nothrow);
    case 2: return ::operator new[](SIZE);
    case 3: return ::operator new[](SIZE, std::nothrow);
    case 4: return ::operator new(SIZE, ALIGN);
    case 5: return ::operator new(SIZE, ALIGN, std::nothrow);
    case 6: return ::operator new[](SIZE, ALIGN);
    case 7: return ::operator new[](SIZE, ALIGN, std::nothrow);
    }
    std::abort();
}

static void release(void *p, int form, int way) {
    const bool array = form & 2, aligned = form & 4;
    switch (way % 3 + (aligned ? 3 : 0) + (array ? 6 : 0)) {
    case 0: return ::operator delete(p);
    case 1: return ::operator delete(p, SIZE);
    case 2: return ::operator delete(p, std::nothrow);
    case 3: return ::operator delete(p, ALIGN);
    case 4: return ::operator delete(p, SIZE, ALIGN);
    case 5: return ::operator delete(p, ALIGN, std::nothrow);
    case 6: return ::operator delete[](p);
    case 7: return ::operator delete[](p, SIZE);
    case 8: return ::operator delete[](p, std::nothrow);
    case 9: return ::operator delete[](p, ALIGN);
    case 10: return ::operator delete[](p, SIZE, ALIGN);
    case 11: return ::operator delete[](p, ALIGN, std::nothrow);
    }
    std::abort();
}

static void *waiting[ROUNDS][NEWS][DELETES];

static void release_all() {
    int n = 0;
    for (auto &round : waiting)
        for (int f = 0; f < NEWS; f++)
            for (int w = 0; w < DELETES; w++, n++) release(round[f][w], f, w);
    std::printf("%d frees\n", n);
}

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    for (auto &round : waiting)
        for (int f = 0; f < NEWS; f++)
            for (int w = 0; w < DELETES; w++)
                if (!(round[f][w] = allocate(f))) std::abort();
    if (argc > 1 && std::strcmp(argv[1], "remote") == 0)
        std::thread(release_all).join();
    else
        release_all();
}
