/* What every workload reports, and how: `key value` lines on stdout, written without the heap.
 *
 *   events    allocations + frees that the workload made itself, by its own count
 *   allocs    the allocations among them
 *   remote    the frees on another thread than the allocating one
 *   threads   threads that it created
 *   busy      threads that should be running at any moment of its work
 *   touched   bytes: peak resident size minus the resident size when main started
 *   peak      bytes: peak resident size
 *   cpu       nanoseconds of user + system time of this process until the report
 *   library   none, homefree or heaptrack: what /proc/self/maps shows
 *   malloc    the module that serves `malloc`
 *   libc      version of the C library
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct counts {
    uint64_t allocs, frees, remote;
    unsigned threads, busy;
};

/* Searches a file of /proc for a text, in a sliding window, without the heap. */
static int file_contains(const char *path, const char *text) {
    static char window[65536];
    size_t kept = 0, need = strlen(text);
    int fd = open(path, O_RDONLY | O_CLOEXEC), found = 0;
    if (fd < 0) return 0;
    for (;;) {
        ssize_t got = read(fd, window + kept, sizeof window - kept);
        if (got <= 0) break;
        size_t have = kept + (size_t)got;
        if (memmem(window, have, text, need)) {
            found = 1;
            break;
        }
        kept = have < need ? have : need - 1;
        memmove(window, window + have - kept, kept);
    }
    close(fd);
    return found;
}

/* A `Name:  N kB` line of /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *name) {
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

static uint64_t resident_at_start;

/* First thing in main. */
static void workload_start(void) { resident_at_start = status_bytes("VmRSS:"); }

/* Ties the calling thread to the nth of the processors it may use, around and around: left to itself,
 * the kernel often starts two busy threads on one core, and then nothing contends. */
static inline void workload_pin(unsigned nth) {
    cpu_set_t may, one;
    if (sched_getaffinity(0, sizeof may, &may) != 0) return;
    nth %= (unsigned)CPU_COUNT(&may);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may) || nth-- != 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

/* Last thing in main. */
static int workload_report(const struct counts *c) {
    uint64_t peak = status_bytes("VmHWM:");
    const char *library = "none";
    if (file_contains("/proc/self/maps", "libhomefree")) library = "homefree";
    if (file_contains("/proc/self/maps", "libheaptrack")) library = "heaptrack";
    Dl_info from;
    void *entry = dlsym(RTLD_DEFAULT, "malloc");
    const char *module = entry && dladdr(entry, &from) && from.dli_fname ? from.dli_fname : "unknown";
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    uint64_t cpu = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000ull +
                   (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000ull;
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "events %llu\nallocs %llu\nremote %llu\nthreads %u\nbusy %u\ntouched %llu\npeak %llu\n"
                     "cpu %llu\nlibrary %s\nmalloc %s\nlibc %s\n",
                     (unsigned long long)(c->allocs + c->frees), (unsigned long long)c->allocs,
                     (unsigned long long)c->remote, c->threads, c->busy,
                     (unsigned long long)(peak > resident_at_start ? peak - resident_at_start : 0),
                     (unsigned long long)peak, (unsigned long long)cpu, library, module, gnu_get_libc_version());
    return n > 0 && write(STDOUT_FILENO, text, (size_t)n) == n ? 0 : 1;
}

/* argv[1] as a number. */
static uint64_t workload_amount(int argc, char **argv) {
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    if (n == 0) {
        fprintf(stderr, "usage: %s EVENTS ...\n", argv[0]);
        exit(2);
    }
    return n;
}

#endif
