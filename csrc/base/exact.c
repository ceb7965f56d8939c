#include "base/exact.h"

#include <string.h>

enum { LOWEST_BIT = -192 };

/* Return x as bits * 2^exponent, taken from its binary form: frexp would cost a function call. */
static uint64_t bits_of(double x, int *exponent)
{
    uint64_t form;
    memcpy(&form, &x, sizeof form);
    const int biased = (int)(form >> 52 & 0x7ff);
    const uint64_t fraction = form & ((UINT64_C(1) << 52) - 1);
    *exponent = (biased > 0 ? biased : 1) - 1075;
    return biased > 0 ? fraction | UINT64_C(1) << 52 : fraction;
}

void plb_exact_add(plb_exact_t *self, double x)
{
    int exponent;
    uint64_t bits = bits_of(x, &exponent);
    int shift = exponent - LOWEST_BIT;
    if (shift < 0) {
        bits = shift > -64 ? bits >> -shift : 0;
        shift = 0;
    }
    if (bits != 0) {
        const int word = shift / 64, up = shift % 64;
        const unsigned __int128 wide = (unsigned __int128)bits << up;
        unsigned __int128 carry = 0;
        for (int i = word; i < PLB_EXACT_LIMBS; i++) {
            carry += self->limb[i];
            if (i == word) {
                carry += (uint64_t)wide;
            } else if (i == word + 1) {
                carry += (uint64_t)(wide >> 64);
            }
            self->limb[i] = (uint64_t)carry;
            carry >>= 64;
        }
    }
}

void plb_exact_merge(plb_exact_t *self, const plb_exact_t *other)
{
    unsigned __int128 carry = 0;
    for (int i = 0; i < PLB_EXACT_LIMBS; i++) {
        carry += (unsigned __int128)self->limb[i] + other->limb[i];
        self->limb[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

/* The 64 bits that start at bit `low` of the number. */
static uint64_t window(const plb_exact_t *self, int low)
{
    const int word = low / 64, down = low % 64;
    uint64_t bits = self->limb[word] >> down;
    if (down != 0 && word + 1 < PLB_EXACT_LIMBS) {
        bits |= self->limb[word + 1] << (64 - down);
    }
    return bits;
}

static int any_below(const plb_exact_t *self, int bit)
{
    for (int i = 0; i < bit / 64; i++) {
        if (self->limb[i] != 0) {
            return 1;
        }
    }
    return bit % 64 != 0 && (self->limb[bit / 64] << (64 - bit % 64)) != 0;
}

/* Return 2^exponent, which must be a normal number. */
static double power_of_2(int exponent)
{
    const uint64_t form = (uint64_t)(exponent + 1023) << 52;
    double out;
    memcpy(&out, &form, sizeof out);
    return out;
}

double plb_exact_value(const plb_exact_t *self)
{
    int top = PLB_EXACT_LIMBS - 1;
    while (top > 0 && self->limb[top] == 0) {
        top--;
    }
    if (self->limb[top] == 0) {
        return 0.0;
    }
    const int high = 64 * top + 63 - __builtin_clzll(self->limb[top]);
    if (high < 53) {
        return (double)self->limb[0] * power_of_2(LOWEST_BIT);
    }
    const int low = high - 52; /* 53 bits: low ... high */
    uint64_t bits = window(self, low) & ((UINT64_C(1) << 53) - 1);
    const int half = (window(self, low - 1) & 1) != 0;
    if (half && ((bits & 1) || any_below(self, low - 1))) {
        bits++;
    }
    return (double)bits * power_of_2(low + LOWEST_BIT);
}
