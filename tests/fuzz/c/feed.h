/* Makes numbers from the bytes that a fuzzer gives.  Each choice of a harness takes the next byte.
 * After the last one, random bytes follow, whose seed depends on all given bytes.  So short inputs
 * describe large questions, too. */
#ifndef FUZZ_FEED_H
#define FUZZ_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

enum { FEED_OWNS = 64 };

typedef struct feed {
    const uint8_t *at, *end;
    plb_rng_t rng;
    void *owned[FEED_OWNS]; /* the arrays that it has returned */
    int n_owned;
} feed_t;

feed_t feed_of(const uint8_t *data, size_t size);
void feed_free(feed_t *self);
uint8_t feed_byte(feed_t *self);
uint64_t feed_word(feed_t *self);
bool feed_bool(feed_t *self);

/** Return a number in 0 ... n - 1. */
uint32_t feed_below(feed_t *self, uint32_t n);

/** Return a size up to `most`, usually a small one. */
uint32_t feed_size(feed_t *self, uint32_t most);

/** Return any double: NaN, infinite, negative, subnormal, large or ordinary. */
double feed_double(feed_t *self);

/** Return any integer; those near 0 and near powers of two are frequent. */
int64_t feed_int(feed_t *self);

/* Return arrays that feed_free frees; the feed also chooses the kind of their values. n may be 0.
 */
void *feed_zeros(feed_t *self, size_t n, size_t size);
uint8_t *feed_flags(feed_t *self, size_t n); /* most of them are 1 */
/* zero or more; often all equal, or of very different size */
double *feed_amounts(feed_t *self, size_t n);
int64_t *feed_bytes(feed_t *self, size_t n);                               /* zero or more */
int32_t *feed_indices(feed_t *self, size_t n, int32_t least, int32_t end); /* least ... end - 1 */

/** Return start[n + 1], which rises from 0 to *total; *total is at most `most`. */
int64_t *feed_starts(feed_t *self, size_t n, uint32_t most, int64_t *total);

/** Return the value of a parameter: its default, an end of its range, or a value between. */
double feed_param(feed_t *self, double fallback, double least, double most);

/* End the program if a condition that must always hold does not. */
#define MUST(holds)                                                                               \
    do {                                                                                          \
        if (!(holds)) {                                                                           \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #holds);                \
            abort();                                                                              \
        }                                                                                         \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
