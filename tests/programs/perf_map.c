/* Promise: generated code that is described in /tmp/perf-PID.map shows by its name. A function called
 * "made_at_run_time" calls malloc 100 times; a thread frees the blocks in free_all. Prints its process id; the caller
 * removes the map. (x86-64 only.) */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *block[100];

__attribute__((noinline)) void *free_all(void *unused) {
    for (int i = 0; i < 100; i++) free(block[i]);
    __asm__ volatile("" ::: "memory");
    return unused;
}

int main(void) {
    /* push rbp; mov rbp,rsp; mov rax,malloc; call rax; pop rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
    void *target = (void *)malloc;
    memcpy(code + 6, &target, sizeof target);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);

    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(name, "w");
    if (!map) return 1;
    fprintf(map, "%lx %zx made_at_run_time\n", (unsigned long)page, sizeof code);
    fclose(map);

    for (int i = 0; i < 100; i++) block[i] = ((void *(*)(size_t))(void *)page)(40);
    pthread_t t;
    pthread_create(&t, NULL, free_all, NULL);
    pthread_join(t, NULL);
    printf("%d\n", (int)getpid());
    return 0;
}
