#include "base/base.h"

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void plb_rng_init(plb_rng_t *self, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u; /* splitmix64 */
        self->s[i] = plb_mix64(seed);
    }
}

uint64_t plb_rng_next(plb_rng_t *self)
{
    uint64_t *s = self->s;
    const uint64_t result = rotl(s[0] + s[3], 23) + s[0];
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double plb_rng_uniform(plb_rng_t *self)
{
    return (double)(plb_rng_next(self) >> 11) * 0x1.0p-53;
}

uint64_t plb_rng_below(plb_rng_t *self, uint64_t n)
{
    unsigned __int128 m = (unsigned __int128)plb_rng_next(self) * n;
    if ((uint64_t)m < n) {
        const uint64_t reject = (0 - n) % n;
        while ((uint64_t)m < reject) {
            m = (unsigned __int128)plb_rng_next(self) * n;
        }
    }
    return (uint64_t)(m >> 64);
}
