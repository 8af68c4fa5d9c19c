// One thread; a std::map<int, string> and a std::unordered_map<int, string> that entries come to and go
// from at random, 20 to 30 frames deep, eight operations a visit.
//
//   maps EVENTS
#include "workload.h"
#include "frames.h"

#include <map>
#include <string>
#include <unordered_map>

namespace {

counts made;

// std::allocator with a count: `operator new` and `operator delete` are called just as it calls them.
template <class T> struct Counted {
    using value_type = T;
    Counted() = default;
    template <class U> Counted(const Counted<U> &) {}
    T *allocate(std::size_t n) {
        made.allocs++;
        return static_cast<T *>(::operator new(n * sizeof(T)));
    }
    void deallocate(T *p, std::size_t n) {
        made.frees++;
#ifdef __cpp_sized_deallocation
        ::operator delete(p, n * sizeof(T));
#else
        (void)n;
        ::operator delete(p);
#endif
    }
    template <class U> bool operator==(const Counted<U> &) const { return true; }
    template <class U> bool operator!=(const Counted<U> &) const { return false; }
};

using Text = std::basic_string<char, std::char_traits<char>, Counted<char>>;
using Entry = std::pair<const int, Text>;
using Ordered = std::map<int, Text, std::less<int>, Counted<Entry>>;
using Hashed = std::unordered_map<int, Text, std::hash<int>, std::equal_to<int>, Counted<Entry>>;

constexpr int KEYS = 200'000; // per map; half of them are present at any moment

// Four lengths, not many: with 64 lengths at these few hundred sites heaptrack 1.4's interpreter ends with
// bad_alloc.
constexpr std::size_t LENGTHS[] = {24, 40, 72, 120};

struct Work {
    Ordered ordered;
    Hashed hashed;
    uint64_t random = 0x9e3779b97f4a7c15ull;
};

template <class Map> void toggle(Map &map, int key, std::size_t length) {
    auto at = map.find(key);
    if (at == map.end())
        map.emplace(key, Text(length, 'x'));
    else
        map.erase(at);
}

void visit(void *context) {
    Work &work = *static_cast<Work *>(context);
    for (int n = 0; n < 4; n++) {
        uint64_t r = next_random(&work.random);
        std::size_t length = LENGTHS[r >> 62];
        toggle(work.ordered, static_cast<int>((r & 0xffffff) % KEYS), length);
        toggle(work.hashed, static_cast<int>((r >> 24 & 0xffffff) % KEYS), length);
    }
}

} // namespace

int main(int argc, char **argv) {
    workload_start();
    uint64_t events = workload_amount(argc, argv);
    {
        Work work;
        while (made.allocs + made.frees < events) {
            uint64_t r = next_random(&work.random);
            at_depth(14 + static_cast<unsigned>((r >> 32) % 11), static_cast<unsigned>(r >> 60), visit, &work);
        }
    }
    made.busy = 1;
    return workload_report(&made);
}
