/* Decimal to binary, rounded to nearest, ties to even.
 *
 * Two exact ways.  Clinger (1990): digits below 2^53 and a power of ten up to 10^22 are doubles,
 * so one multiplication or division rounds once.  Else, up to 10^27, 5^k fits into 64 bits, and
 * the quotient or product of integers of 128 bits, with its remainder, gives the 53 bits.  VT
 * prints seconds with 17 digits, which is the second case.  The rest is left to strtod.
 */
#ifndef PLB_IO_DECIMAL_H
#define PLB_IO_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/** digits * 10^exponent, correctly rounded; false where neither way applies. */
bool plb_decimal(uint64_t digits, int exponent, double *out);

#endif
