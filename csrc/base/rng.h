/* Seeded random numbers: xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64.  The
 * record of an LB step (pylb/decide/receipts.py) has the seed, so the step can be repeated. */
#pragma once

#include <stdint.h>

typedef struct plb_rng {
    uint64_t s[4];
} plb_rng_t;

void plb_rng_init(plb_rng_t *self, uint64_t seed);
uint64_t plb_rng_next(plb_rng_t *self);

/** Uniform in [0, 1), 53 bits. */
double plb_rng_uniform(plb_rng_t *self);

/** Uniform in 0 ... n-1, without bias (Lemire 2019); n > 0. */
uint64_t plb_rng_below(plb_rng_t *self, uint64_t n);
