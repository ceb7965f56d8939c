/* Decimal to binary, rounded to nearest, ties to even, by two exact methods.
 *
 * If the digits are below 2^53 and the power of ten is at most 10^22, both are doubles, so one
 * multiplication or division rounds only once (Clinger 1990).  For 10^k with k up to 27, 5^k fits
 * into 64 bits, and a quotient or product of 128-bit integers, with its remainder, gives the 53
 * bits.  vt prints seconds with 17 digits, which need the second method. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Compute digits * 10^exponent, correctly rounded; false if neither method applies. */
bool plb_decimal(uint64_t digits, int exponent, double *out);
