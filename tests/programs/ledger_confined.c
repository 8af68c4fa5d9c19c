/* Promise: a program that allows itself only what it needs, and has the kernel kill it at any other system call, runs on
 * and ends as ever. First argument: who sets the filter (main, child, thread); second: how (prctl, seccomp, raw); third: how it
 * ends (exit, _exit, raw). Raw ways are system calls that no library sees. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static const char *how, *end;

static void confine(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap),
        ALLOW(SYS_madvise), ALLOW(SYS_mprotect), ALLOW(SYS_futex), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        ALLOW(SYS_newfstatat), /* stdio */
        ALLOW(SYS_getrandom), /* malloc */
        ALLOW(SYS_rt_sigprocmask), /* the end of a thread */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    long failed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!strcmp(how, "prctl")) {
        failed |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    } else if (!strcmp(how, "seccomp")) {
        failed |= syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    } else {
        __asm__ volatile("syscall"
                         : "=a"(failed)
                         : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(&program)
                         : "rcx", "r11", "memory");
    }
    if (failed) _exit(77);
}

static void *work(void *unused) {
    void *volatile block;
    for (int i = 0; i < 1000; i++) free(block = malloc(1000)); /* the thread is known to the library */
    confine();
    for (int i = 0; i < 2000; i++) {
        block = malloc(1000);
        if (i & 1) free(block);
    }
    return unused;
}

static int finish(int status) {
    if (!strcmp(end, "_exit")) _exit(status);
    if (!strcmp(end, "raw")) __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(status) : "rcx", "r11", "memory");
    return status;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    how = argv[2], end = argv[3];
    if (!strcmp(argv[1], "child")) {
        pid_t child = fork();
        if (child) {
            int status;
            if (waitpid(child, &status, 0) != child) return 3;
            if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
            return WEXITSTATUS(status);
        }
        work(NULL);
    } else if (!strcmp(argv[1], "thread")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL)) return 3;
        pthread_join(thread, NULL);
    } else {
        work(NULL);
    }
    return finish(5);
}
