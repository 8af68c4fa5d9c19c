/* Promise: what is done at the very end is in the account. N blocks of 1,000 bytes are made and kept by a function of atexit,
 * N by a destructor of the program, and (in ledger_exit_library.c) N by a destructor of a library that comes after ours.
 * `ledger_exit N exit|_exit`. Prints the usable bytes of one. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void keep_some(int n);
void set_number(int n);

static int number;

static void last(void) { keep_some(number); }

__attribute__((destructor)) static void destroyed(void) { keep_some(number); }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    number = atoi(argv[1]);
    set_number(number);
    setvbuf(stdout, NULL, _IONBF, 0);
    void *one = malloc(1000);
    printf("%zu\n", malloc_usable_size(one));
    free(one);
    atexit(last);
    if (!strcmp(argv[2], "_exit")) {
        keep_some(3 * number);
        _exit(0);
    }
    return 0;
}
