// A C++ plug-in in a C program asks for more than there is, by `new[]`, by aligned `new[]` and by `new`.
// Promise: all throw.
#include <cstdio>
#include <new>
#include <string>

extern "C" void run() {
    volatile size_t size = size_t{1} << 61;
    try {
        char *volatile block = new char[size];
        std::printf("new[] returned %s\n", block ? "a block" : "null");
    } catch (const std::bad_alloc &) {
        std::puts("new[] threw");
    }
    try {
        char *volatile block = new (std::align_val_t{64}) char[size];
        std::printf("aligned new[] returned %s\n", block ? "a block" : "null");
    } catch (const std::bad_alloc &) {
        std::puts("aligned new[] threw");
    }
    try {
        std::string text(size, 'x');
        std::puts("a string?");
    } catch (const std::exception &) {
        std::puts("new threw");
    }
}
