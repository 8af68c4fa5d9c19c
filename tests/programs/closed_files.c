/* Promise: a program that closes every file it did not open, as daemons do, and reuses their numbers, never finds the
 * recorder's writing in its own files. `closed_files FILE`: closes 3 to 1023, opens FILE until the numbers are taken,
 * writes a text, then makes blocks from 2^14 - 1 stacks and 100 threads, so that the profile must grow, and ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) void *walk(int depth) {
    void *p = malloc(24);
    if (depth > 1) {
        free(walk(depth - 1));
        __asm__ volatile("" ::: "memory");
        free(walk(depth - 1));
    }
    return p;
}

static void *thread(void *p) {
    free(p);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    free(walk(3));
    for (int fd = 3; fd < 1024; fd++) close(fd);
    int last = -1;
    for (int i = 0; i < 64; i++) {
        int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
        if (fd >= 0) last = fd;
    }
    const char *text = "what the program wrote\n";
    if (pwrite(last, text, strlen(text), 0) != (ssize_t)strlen(text)) return 1;
    free(walk(14));
    for (int i = 0; i < 100; i++) {
        pthread_t t;
        pthread_create(&t, NULL, thread, walk(2));
        pthread_join(t, NULL);
    }
    for (int fd = 3; fd <= last; fd++)
        if (lseek(fd, 0, SEEK_END) != (off_t)strlen(text)) return 1;
    puts("own files are whole");
    return 0;
}
