/* Promise: generated code that calls malloc, with and without a frame pointer, is only a stack that ends there.
 * make_through goes through it 2,000 times; the pages come and go. (x86-64; elsewhere it calls malloc itself.) */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
static const unsigned char with_frame[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
static const unsigned char without_frame[] = {0x53, 0x31, 0xdb, 0x90, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5b, 0xc3};
/* As without_frame, but rbp holds 0x1234 during the call. */
static const unsigned char wild_frame[] = {0x55, 0xbd, 0x34, 0x12, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};

static void *generate(const unsigned char *code, size_t size, size_t hole) {
    void *target = (void *)malloc;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, size);
    memcpy(page + hole, &target, sizeof target);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    return page;
}
#endif

__attribute__((noinline)) void *make_through(void *(*code)(size_t)) {
    void *p = code(80);
    __asm__ volatile("" ::: "memory");
    return p;
}

int main(void) {
    for (int i = 0; i < 500; i++) {
#if defined(__x86_64__)
        void *code[] = {generate(with_frame, sizeof with_frame, 6), generate(without_frame, sizeof without_frame, 6),
                        generate(wild_frame, sizeof wild_frame, 8), (void *)malloc};
#else
        void *code[] = {(void *)malloc, (void *)malloc, (void *)malloc, (void *)malloc};
#endif
        for (int k = 0; k < 4; k++) free(make_through((void *(*)(size_t))code[k]));
        for (int k = 0; k < 3; k++)
            if (code[k] != (void *)malloc) munmap(code[k], 4096);
    }
    puts("2000 blocks");
    return 0;
}
