/* Exact sums of seconds: fixed point, so that the result does not depend on the order of the
 * additions.
 *
 * A sum is an unsigned number of 320 bits whose lowest bit is 2^-192.  Values from 0 to 1e30 are
 * added exactly down to that bit; the part of a value below it (less than 2e-58) is cut off.  The
 * sum must be below 2^128 (3.4e38).  So any order of additions on any number of ranks gives the
 * same bits, and the sum is rounded only once, in plb_exact_value.
 */
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
