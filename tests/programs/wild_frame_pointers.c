/* Promise: whatever is in the frame pointer register when malloc is called, the recorder reads no memory it may not.
 * (x86-64; elsewhere nothing is tried.) */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__x86_64__)
/* void *malloc_with(size_t size, void *frame): no call-frame information, as hand-written assembly often has none. */
__asm__(".text\n.globl malloc_with\n.type malloc_with,@function\nmalloc_with:\n"
        "push %rbp\nmov %rsi,%rbp\ncall malloc@PLT\npop %rbp\nret\n.size malloc_with,.-malloc_with\n");
/* The same with call-frame information that says the caller's frame is found through the wild register. */
__asm__(".text\n.globl malloc_lying\n.type malloc_lying,@function\nmalloc_lying:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa %rbp,16\n.cfi_offset %rbp,-16\nmov %rsi,%rbp\ncall malloc@PLT\npop %rbp\nret\n.cfi_endproc\n"
        ".size malloc_lying,.-malloc_lying\n");
extern void *malloc_with(size_t, void *), *malloc_lying(size_t, void *);

static void try_all(void *frame) {
    free(malloc_with(40, frame));
    free(malloc_lying(40, frame));
}
#else
static void try_all(void *frame) { (void)frame; }
#endif

int main(void) {
    uintptr_t local[8];
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gap = pages + 4096;
    munmap(gap, 4096);
    char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 200; i++) {
        for (int n = 0; n < 8; n++) local[n] = 0;
        void *frames[] = {0, (void *)1, (void *)8, (void *)16, (void *)0x1234, (void *)-1, (void *)-8, (void *)-16,
                          (void *)((uintptr_t)1 << 47), (void *)((uintptr_t)1 << 63), local, (char *)local + 1,
                          (char *)local + 4, gap - 8, gap - 16, gap, none, none + 4088, pages, (void *)main,
                          (void *)((uintptr_t)local & ~(uintptr_t)0xfffff), (char *)local + (1 << 20), (char *)local + (1 << 24)};
        for (unsigned f = 0; f < sizeof frames / sizeof *frames; f++) try_all(frames[f]);
        local[0] = (uintptr_t)local; /* a frame that is its own caller */
        local[1] = (uintptr_t)main + 1;
        try_all(local);
        local[0] = (uintptr_t)&local[2]; /* two that call each other */
        local[2] = (uintptr_t)local;
        local[3] = (uintptr_t)main + 2;
        try_all(local);
        local[0] = (uintptr_t)gap - 16; /* good, then off the edge */
        try_all(local);
        local[0] = (uintptr_t)local + (1 << 23); /* good, then above the stack */
        try_all(local);
    }
    puts("no wild read");
    return 0;
}
