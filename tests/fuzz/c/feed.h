/* Numbers from the bytes that a fuzzer gives.  Each choice of a harness takes the next byte; after
 * the last one the bytes go on at random, from a seed that depends on all of them, so that short
 * inputs describe large questions, too. */
#ifndef FUZZ_FEED_H
#define FUZZ_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

typedef struct feed {
    const uint8_t *at, *end;
    plb_rng_t rng;
} feed_t;

feed_t feed_of(const uint8_t *data, size_t size);
uint8_t feed_byte(feed_t *self);
uint64_t feed_word(feed_t *self);
bool feed_bool(feed_t *self);

/** 0 ... n - 1. */
uint32_t feed_below(feed_t *self, uint32_t n);

/** Sizes: mostly few, at most `most`. */
uint32_t feed_size(feed_t *self, uint32_t most);

/** Any double: NaN, infinite, negative, denormal, large, ordinary. */
double feed_double(feed_t *self);

/** Any integer: around 0, around powers of two, anything. */
int64_t feed_int(feed_t *self);

/* Arrays of plb_malloc; the kind of their values is a choice, too.  n may be 0. */
double *feed_amounts(feed_t *self, size_t n); /* zero or more; often equal, or over many decades */
int64_t *feed_bytes(feed_t *self, size_t n);  /* zero or more */
int32_t *feed_indices(feed_t *self, size_t n, int32_t least, int32_t end); /* least ... end - 1 */

/** start[n + 1] that rises from 0 to *total, `most` at most. */
int64_t *feed_starts(feed_t *self, size_t n, uint32_t most, int64_t *total);

/** A parameter within its closed range: default, ends, between. */
double feed_param(feed_t *self, double fallback, double least, double most);

/* What must always hold. */
#define MUST(holds)                                                                               \
    do {                                                                                          \
        if (!(holds)) {                                                                           \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #holds);                \
            abort();                                                                              \
        }                                                                                         \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
