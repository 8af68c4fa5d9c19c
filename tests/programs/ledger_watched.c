/* Promise: prctl and syscall, which are watched, do what they did: all arguments arrive, results and errno come back, a
 * call may return twice, and one that fails to set a filter confines nobody. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("%s, errno %d\n", #what, errno); return 1; } } while (0)

static int early; /* from a constructor that may come before the library's own */
__attribute__((constructor)) static void begin(void) { early = syscall(SYS_getpid) == getpid() && prctl(PR_GET_DUMPABLE) >= 0; }

int main(void) {
    CHECK(early);
    /* Six arguments, the last of them on the stack. */
    char *page = (char *)syscall(SYS_mmap, NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[8191] = 1;
    FILE *file = tmpfile();
    CHECK(file && !fflush(file) && !ftruncate(fileno(file), 8192) && pwrite(fileno(file), "x", 1, 4096) == 1);
    char *mapped = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 4096);
    CHECK(mapped != MAP_FAILED && mapped[0] == 'x');
    errno = 0;
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    errno = 0;
    CHECK(prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL);
    char name[16] = "";
    CHECK(!prctl(PR_SET_NAME, "a name", 0, 0, 0) && !prctl(PR_GET_NAME, name, 0, 0, 0) && !strcmp(name, "a name"));
    CHECK(!syscall(SYS_prctl, PR_SET_NAME, "other", 0, 0, 0) && !syscall(SYS_prctl, PR_GET_NAME, name) && !strcmp(name, "other"));
    /* A filter that is refused. */
    errno = 0;
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ~0u, (void *)1) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)1) == -1 && errno);
    long child = syscall(SYS_fork);
    if (child == 0) _exit(7);
    int status;
    CHECK(waitpid((pid_t)child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    puts("all as it should be");
    return 0;
}
