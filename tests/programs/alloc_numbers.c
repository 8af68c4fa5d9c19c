/* Promise: the numbers are right. 1000 blocks of 1000 bytes (of 1024, then), one of 300,000 and one of 8 MiB, half of
 * the small ones freed by another thread: what mallinfo2 counts before, with them, and after. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *block[1000], *volatile span, *volatile huge;

static void *free_half(void *unused) {
    for (int i = 0; i < 500; i++) free(block[i]);
    return unused;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_t t;
    pthread_create(&t, NULL, free_half, NULL); /* What libc keeps of a thread is there from now on. */
    pthread_join(t, NULL);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 1000; i++) block[i] = malloc(1000);
    span = malloc(300000);
    huge = malloc(8 << 20);
    struct mallinfo2 with = mallinfo2();
    pthread_create(&t, NULL, free_half, NULL);
    pthread_join(t, NULL);
    for (int i = 500; i < 1000; i++) free(block[i]);
    free(span);
    free(huge);
    malloc_trim(0);
    struct mallinfo2 after = mallinfo2();
    printf("%zu %zu %zu\n", with.uordblks - before.uordblks, with.hblks - before.hblks, with.hblkhd - before.hblkhd);
    printf("%zd %zd %zu\n", (ssize_t)(after.uordblks - before.uordblks), (ssize_t)(after.hblks - before.hblks), after.keepcost);
    malloc_info(0, stdout);
    printf("%d\n", malloc_info(1, stdout));
    return 0;
}
