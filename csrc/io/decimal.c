#include "io/decimal.h"

#include <math.h>

enum { MOST_TEN = 22, MOST_FIVE = 27 };

static const double tens[MOST_TEN + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static uint64_t power_of_five(int k)
{
    uint64_t out = 1;
    for (uint64_t square = 5; k > 0; k >>= 1, square *= square) {
        out *= k & 1 ? square : 1;
    }
    return out;
}

/* Round (bits + fraction) * 2^scale to a double, where bits >= 2^53 and 0 <= fraction < 1.
 * `rest`: whether the fraction is above 0. */
static double rounded(uint64_t bits, bool rest, int scale)
{
    const int drop = 64 - __builtin_clzll(bits) - 53;
    const uint64_t half = UINT64_C(1) << (drop - 1);
    const uint64_t tail = bits & (2 * half - 1);
    bits >>= drop;
    bits += tail > half || (tail == half && (rest || (bits & 1)));
    return ldexp((double)bits, scale + drop);
}

static double quotient(uint64_t digits, int k)
{
    const uint64_t five = power_of_five(k);
    const int shift = 63 + __builtin_clzll(digits) - __builtin_clzll(five);
    const unsigned __int128 up = (unsigned __int128)digits << shift;
    return rounded((uint64_t)(up / five), up % five != 0, -shift - k);
}

static double product(uint64_t digits, int k)
{
    const unsigned __int128 exact = (unsigned __int128)digits * power_of_five(k);
    const uint64_t high = (uint64_t)(exact >> 64), low = (uint64_t)exact;
    if (high == 0) {
        return ldexp((double)low, k);
    }
    const int up = __builtin_clzll(high);
    const unsigned __int128 top = exact << up;
    return rounded((uint64_t)(top >> 64), (uint64_t)top != 0, 64 - up + k);
}

bool plb_decimal(uint64_t digits, int exponent, double *out)
{
    if (digits == 0 || exponent == 0) {
        *out = (double)digits;
    } else if (exponent < -MOST_FIVE || exponent > MOST_FIVE) {
        return false;
    } else if (digits >> 53 == 0 && exponent >= -MOST_TEN && exponent <= MOST_TEN) {
        *out = exponent < 0 ? (double)digits / tens[-exponent] : (double)digits * tens[exponent];
    } else {
        *out = exponent < 0 ? quotient(digits, -exponent) : product(digits, exponent);
    }
    return true;
}
