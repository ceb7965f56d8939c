/* Exact sums of seconds in fixed point: any order of additions on any number of ranks gives the
 * same bits.
 *
 * A sum is an unsigned number of 320 bits whose lowest bit is 2^-192; the part of a value below
 * this bit (less than 2e-58) is cut off.  The sum must be below 2^128 (3.4e38).  It is rounded
 * only once, in plb_exact_value. */
#pragma once

#include <stdint.h>

#define PLB_EXACT_LIMBS 5
#define PLB_EXACT_MOST 1e30 /* largest value that may be added */

typedef struct plb_exact {
    uint64_t limb[PLB_EXACT_LIMBS]; /* least significant first */
} plb_exact_t;

/** Add x, 0 <= x <= PLB_EXACT_MOST (the caller has checked). */
void plb_exact_add(plb_exact_t *self, double x);

void plb_exact_merge(plb_exact_t *self, const plb_exact_t *other);

/** Round the sum to the nearest double, ties to even. */
double plb_exact_value(const plb_exact_t *self);
