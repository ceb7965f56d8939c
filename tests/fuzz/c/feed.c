#include "feed.h"

#include <string.h>

#include "base/base.h"

feed_t feed_of(const uint8_t *data, size_t size)
{
    feed_t out = {.at = data, .end = data + size};
    uint64_t seed = size;
    for (size_t i = 0; i < size; i++) {
        seed = plb_mix64(seed ^ data[i]);
    }
    plb_rng_init(&out.rng, seed);
    return out;
}

void feed_free(feed_t *self)
{
    while (self->n_owned > 0) {
        plb_free(self->owned[--self->n_owned]);
    }
}

void *feed_zeros(feed_t *self, size_t n, size_t size)
{
    MUST(self->n_owned < FEED_OWNS);
    return self->owned[self->n_owned++] = plb_calloc(n, size);
}

uint8_t *feed_flags(feed_t *self, size_t n)
{
    uint8_t *out = feed_zeros(self, n, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out[i] = feed_byte(self) % 8 != 0;
    }
    return out;
}

uint8_t feed_byte(feed_t *self)
{
    return self->at < self->end ? *self->at++ : (uint8_t)plb_rng_next(&self->rng);
}

uint64_t feed_word(feed_t *self)
{
    uint64_t out = 0;
    for (int i = 0; i < 8; i++) {
        out = out << 8 | feed_byte(self);
    }
    return out;
}

bool feed_bool(feed_t *self)
{
    return feed_byte(self) & 1;
}

uint32_t feed_below(feed_t *self, uint32_t n)
{
    uint32_t x = feed_byte(self);
    for (uint32_t most = 256; most < n && most != 0; most <<= 8) {
        x = x << 8 | feed_byte(self);
    }
    return x % n;
}

uint32_t feed_size(feed_t *self, uint32_t most)
{
    const uint32_t small = most < 8 ? most : 8;
    return feed_byte(self) % 4 == 0 ? feed_below(self, small + 1) : feed_below(self, most + 1);
}

double feed_double(feed_t *self)
{
    static const double special[] = {0.0,    -0.0,   1.0,   -1.0,  5e-324, 1e-310,   2.3e-308,
                                     1e-300, 1e-30,  1e-9,  0.1,   1.5,    1e9,      1e28,
                                     1e30,   1.1e30, 1e100, 1e154, 1e308,  1.79e308, -5e-324,
                                     1e-8,   1e300,  1e-12, 0.5,   1e-100};
    const uint32_t kind = feed_byte(self);
    if (kind < 128) {
        return kind / 16.0;
    }
    if (kind < 250) {
        return special[kind % (sizeof special / sizeof *special)];
    }
    const uint64_t bits = feed_word(self); /* may be NaN or infinite */
    double out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

int64_t feed_int(feed_t *self)
{
    const uint8_t kind = feed_byte(self);
    if (kind < 128) {
        return kind - 8;
    }
    if (kind < 224) {
        return (int64_t)((UINT64_C(1) << feed_byte(self) % 64) - 1 + kind % 3);
    }
    return (int64_t)feed_word(self);
}

double *feed_amounts(feed_t *self, size_t n)
{
    enum { EQUAL, DIGITS, DECADES, SPARSE, EXTREME, SPREAD, N_KINDS };
    static const double extreme[] = {0.0, 5e-324, 1e-322, 1e-308, 1e-300, 1e-30, 1e-12, 1e-8,
                                     0.5, 1.0,    1e8,    1e28,   1e30,   1e-4,  3.0,   1e12};
    double *out = feed_zeros(self, n, sizeof *out);
    const uint32_t kind = feed_below(self, N_KINDS), any = feed_byte(self);
    for (size_t i = 0; i < n; i++) {
        const uint8_t b = kind == EQUAL ? (uint8_t)any : feed_byte(self);
        out[i] = b;
        if (kind == DECADES) {
            out[i] = 1e-4 * (double)(UINT64_C(1) << b % 16);
        } else if (kind == SPARSE) {
            out[i] = b % 4 == 0 ? b : 0.0;
        } else if (kind == EXTREME) {
            out[i] = extreme[b % 16];
        } else if (kind == SPREAD) {
            out[i] = (double)plb_rng_next(&self->rng) * 0x1p-64;
        }
    }
    return out;
}

int64_t *feed_bytes(feed_t *self, size_t n)
{
    int64_t *out = feed_zeros(self, n, sizeof *out);
    const uint8_t kind = feed_byte(self);
    for (size_t i = 0; i < n; i++) {
        out[i] = kind < 224 ? feed_byte(self) : feed_int(self) & INT64_MAX;
    }
    return out;
}

int32_t *feed_indices(feed_t *self, size_t n, int32_t least, int32_t end)
{
    int32_t *out = feed_zeros(self, n, sizeof *out);
    const uint32_t width = end > least ? (uint32_t)(end - least) : 1;
    const bool blocks = feed_bool(self);
    for (size_t i = 0; i < n; i++) {
        const uint64_t block = i * width / n;
        out[i] = least + (int32_t)(blocks ? block : feed_below(self, width));
    }
    return out;
}

int64_t *feed_starts(feed_t *self, size_t n, uint32_t most, int64_t *total)
{
    int64_t *out = feed_zeros(self, n + 1, sizeof *out);
    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t left = (int64_t)most - out[i], wanted = feed_below(self, 7);
        out[i + 1] = out[i] + (wanted < left ? wanted : left);
    }
    *total = out[n];
    return out;
}

double feed_param(feed_t *self, double fallback, double least, double most)
{
    const uint8_t kind = feed_byte(self);
    const double top = most < 1e6 ? most : 1e6, low = least > -1e6 ? least : -1e6;
    if (kind < 128) {
        return fallback;
    }
    if (kind < 144) {
        return least;
    }
    return kind < 160 ? top : low + (top - low) * (feed_byte(self) / 255.0);
}
