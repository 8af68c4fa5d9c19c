/* Promise: a program that replaces malloc itself runs as ever, however little can be recorded of it. Built as C++ too. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char room[64 << 20];
static size_t used, mallocs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *malloc(size_t size) {
    pthread_mutex_lock(&lock);
    char *p = room + used + 16;
    used += (size + 31) & ~(size_t)15;
    mallocs++;
    pthread_mutex_unlock(&lock);
    memcpy(p - 16, &size, sizeof size);
    return used < sizeof room ? p : NULL;
}

void free(void *p) {
    if (p && ((char *)p < room || (char *)p > room + sizeof room)) __builtin_trap();
}

void *calloc(size_t n, size_t size) { return malloc(n * size); }

void *realloc(void *p, size_t size) {
    char *q = malloc(size);
    size_t old = 0;
    if (p) memcpy(&old, (char *)p - 16, sizeof old);
    if (p && q) memcpy(q, p, old < size ? old : size);
    return q;
}

static void *thread(void *p) {
    free(p);
    return strdup("from a thread");
}

int main(void) {
    for (int i = 0; i < 1000; i++) free(realloc(malloc(100), 200));
    pthread_t t;
    void *text;
    pthread_create(&t, NULL, thread, malloc(10));
    pthread_join(t, &text);
    printf("%s, %s\n", (char *)text, mallocs >= 2002 ? "own malloc used" : "own malloc not used");
    return 0;
}
