/* Call stacks of a chosen depth and of a few chosen shapes.
 *
 * `at_depth(depth, path, leaf, context)` calls `leaf` below `depth` frames. Which of two functions each
 * of the innermost four frames belongs to is said by the low bits of `path`, so that neighbouring calls
 * share their outer frames and differ in the inner ones, as the calls of a real program do. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdint.h>

/* noipa: no inlining, cloning or folding, and (with -fno-optimize-sibling-calls) a frame each. */
#define FRAME __attribute__((noipa))
#define PATHS 16u

typedef void (*leaf_fn)(void *context);

FRAME static void frame_left(unsigned depth, unsigned path, leaf_fn leaf, void *context);

FRAME static void frame_right(unsigned depth, unsigned path, leaf_fn leaf, void *context) {
    if (depth <= 1)
        leaf(context);
    else if (depth <= 5 && (path >> (depth - 2) & 1))
        frame_right(depth - 1, path, leaf, context);
    else
        frame_left(depth - 1, path, leaf, context);
}

FRAME static void frame_left(unsigned depth, unsigned path, leaf_fn leaf, void *context) {
    if (depth <= 1)
        leaf(context);
    else if (depth <= 5 && (path >> (depth - 2) & 1))
        frame_right(depth - 1, path, leaf, context);
    else
        frame_left(depth - 1, path, leaf, context);
}

FRAME static void at_depth(unsigned depth, unsigned path, leaf_fn leaf, void *context) {
    frame_left(depth, path, leaf, context);
}

/* xorshift64*: the same sequence in every arm. */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}

#endif
