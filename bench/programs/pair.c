/* The purest form: malloc and free of one block, again and again.
 *
 *   pair EVENTS same      one site, about 30 frames deep, the stack standing still
 *   pair EVENTS sites     four sites in turn, about 5 frames deep
 *   pair EVENTS moving    about 30 frames, the innermost four left and entered anew for each pair
 */
#include "workload.h"
#include "frames.h"

struct work {
    uint64_t pairs;
};

static void *volatile keep;

static inline void *touch(void *block) {
    *(volatile char *)block = 1;
    keep = block; /* the compiler may not remove the pair */
    return block;
}

static void same_site(void *context) {
    for (uint64_t n = ((struct work *)context)->pairs; n; n--) free(touch(malloc(48)));
}

FRAME static void *site_a(void) { return touch(malloc(32)); }
FRAME static void *site_b(void) { return touch(malloc(48)); }
FRAME static void *site_c(void) { return touch(malloc(64)); }
FRAME static void *site_d(void) { return touch(malloc(100)); }

static void four_sites(void *context) {
    for (uint64_t n = ((struct work *)context)->pairs / 4; n; n--) {
        free(site_a());
        free(site_b());
        free(site_c());
        free(site_d());
    }
}

static void one_pair(void *context) {
    (void)context;
    free(touch(malloc(48)));
}

static void moving(void *context) {
    uint64_t random = 0x9e3779b97f4a7c15ull;
    for (uint64_t n = ((struct work *)context)->pairs; n; n--)
        frame_left(5, (unsigned)(next_random(&random) >> 60), one_pair, NULL);
}

int main(int argc, char **argv) {
    workload_start();
    uint64_t pairs = (workload_amount(argc, argv) / 2 + 3) / 4 * 4;
    struct work work = {pairs};
    const char *form = argc > 2 ? argv[2] : "same";
    /* main, at_depth and the leaf are frames too; below them lie the C library's two. */
    if (strcmp(form, "same") == 0)
        at_depth(25, 0, same_site, &work);
    else if (strcmp(form, "sites") == 0)
        four_sites(&work);
    else if (strcmp(form, "moving") == 0)
        at_depth(19, 0, moving, &work);
    else
        return fprintf(stderr, "pair: unknown form %s\n", form), 2;
    struct counts counts = {.allocs = pairs, .frees = pairs, .busy = 1};
    return workload_report(&counts);
}
