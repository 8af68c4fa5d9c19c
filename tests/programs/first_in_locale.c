/* Promise: the first malloc of the process may come from inside newlocale, which holds the libc's lock of locales then,
 * before any library's constructor has run. Afterwards the lock is whole: setlocale and gettext work, on threads too. */
#define _GNU_SOURCE
#include <libintl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>

static locale_t first;

static void before_all(void) { first = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0); }
__attribute__((section(".preinit_array"), used)) static void (*const begin)(void) = before_all;

static void *use(void *unused) {
    for (int i = 0; i < 100; i++) {
        setlocale(LC_ALL, i % 2 ? "C" : "C.UTF-8");
        gettext("a text");
    }
    return unused;
}

int main(void) {
    pthread_t t;
    pthread_create(&t, NULL, use, NULL);
    use(NULL);
    pthread_join(t, NULL);
    puts(first ? "locales work" : "no such locale");
    if (first) freelocale(first);
    return 0;
}
