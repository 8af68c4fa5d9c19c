/* For tests of what passes through the launcher: copies its input to its output, says a word on stderr and ends by
 * `exit CODE` or `signal NUMBER`; `wait` says "ready" first and sleeps until a signal; `trap` does so and ends with 5
 * when SIGINT, SIGTERM or SIGHUP comes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t got;
static void handler(int n) { got = n; }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "exit";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; i < 500; i++) free(malloc(100));
    if (!strcmp(how, "wait") || !strcmp(how, "trap")) {
        sigset_t all, old;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &old);
        if (!strcmp(how, "trap")) {
            signal(SIGINT, handler);
            signal(SIGTERM, handler);
            signal(SIGHUP, handler);
        }
        puts("ready");
        fflush(stdout);
        while (!got) sigsuspend(&old);
        printf("signal %d\n", (int)got);
        return 5;
    }
    int c;
    while ((c = getchar()) != EOF) putchar(c);
    fflush(stdout);
    fputs("a word\n", stderr);
    if (!strcmp(how, "signal")) {
        signal(number, SIG_DFL);
        raise(number);
    }
    return number;
}
