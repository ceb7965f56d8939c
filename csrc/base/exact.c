#include "base/base.h"

#include <math.h>

enum { LOWEST_BIT = -192 };

void plb_exact_add(plb_exact_t *self, double x)
{
    int exponent;
    x = fmin(x, PLB_EXACT_MOST); /* a larger number, or NaN, would not fit into `limb` */
    uint64_t bits = (uint64_t)(frexp(x, &exponent) * 0x1p53); /* x = bits * 2^(exponent - 53) */
    int shift = exponent - 53 - LOWEST_BIT;
    if (shift < 0) {
        bits = shift > -64 ? bits >> -shift : 0;
        shift = 0;
    }
    const unsigned __int128 wide = (unsigned __int128)bits << shift % 64;
    plb_exact_t term = {{0}};
    term.limb[shift / 64] = (uint64_t)wide;
    if (shift / 64 + 1 < PLB_EXACT_LIMBS) {
        term.limb[shift / 64 + 1] = (uint64_t)(wide >> 64);
    }
    plb_exact_merge(self, &term);
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

double plb_exact_value(const plb_exact_t *self)
{
    int top = PLB_EXACT_LIMBS - 1;
    while (top > 1 && self->limb[top] == 0) {
        top--;
    }
    /* the highest 128 bits; the lowest of them also stands for all below, which may break a tie */
    unsigned __int128 bits = (unsigned __int128)self->limb[top] << 64 | self->limb[top - 1];
    for (int i = 0; i < top - 1; i++) {
        bits |= self->limb[i] != 0;
    }
    return ldexp((double)bits, 64 * (top - 1) + LOWEST_BIT);
}
