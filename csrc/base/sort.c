/* Least significant digit radix sort of packed words.
 *
 * A word is (key << index bits) | index.  The key is the distance of a double's monotone integer
 * image from the first in the order, cut to KEY_BITS significant bits: three passes over 8 bytes
 * an element instead of six over 12.  Elements whose cut keys agree are few; each such run is
 * ordered afterwards by what was cut off: short ones by insertion, long ones by another radix
 * sort, which spends its bits on the run's own, at least 2^KEY_BITS times narrower range.
 */
#include "base/sort.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum {
    DIGIT_BITS = 11,
    BINS = 1 << DIGIT_BITS,
    DIGITS = 3,
    KEY_BITS = DIGIT_BITS * DIGITS, /* 33: with 31 bits of index 64 */
    SHORT_RUN = 32,
};

typedef struct sorter {
    const double *x;
    plb_direction_t direction;
    int index_bits;
    uint64_t index_mask;
    uint64_t *scratch;
    uint32_t count[DIGITS][BINS];
} sorter_t;

/* An unsigned integer that is ordered as the doubles are. */
static inline uint64_t image(double x)
{
    uint64_t bits;
    x += 0.0; /* -0.0 to 0.0 */
    memcpy(&bits, &x, sizeof bits);
    return bits ^ ((uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63);
}

static inline uint64_t image_at(const sorter_t *self, uint64_t word)
{
    const uint64_t i = image(self->x[word & self->index_mask]);
    return self->direction == PLB_ASCENDING ? i : ~i;
}

/* Give each word of the run its key; returns the bits that were cut off. */
static int make_keys(const sorter_t *self, uint64_t *a, int64_t n)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = image_at(self, a[i]);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    const int used = high == low ? 0 : 64 - __builtin_clzll(high - low);
    const int cut = used > KEY_BITS ? used - KEY_BITS : 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = (image_at(self, a[i]) - low) >> cut;
        a[i] = key << self->index_bits | (a[i] & self->index_mask);
    }
    return cut;
}

/* One stable pass; false where all words have the same digit and nothing was done. */
static bool pass(const uint64_t *from, uint64_t *to, int64_t n, int shift, uint32_t *count)
{
    if (count[from[0] >> shift & (BINS - 1)] == n) {
        return false;
    }
    uint32_t sum = 0;
    for (int b = 0; b < BINS; b++) {
        const uint32_t here = count[b];
        count[b] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < n; i++) {
        to[count[from[i] >> shift & (BINS - 1)]++] = from[i];
    }
    return true;
}

static void sort_keys(sorter_t *self, uint64_t *a, int64_t n)
{
    memset(self->count, 0, sizeof self->count);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = a[i] >> self->index_bits;
        for (int d = 0; d < DIGITS; d++) {
            self->count[d][key >> (d * DIGIT_BITS) & (BINS - 1)]++;
        }
    }
    uint64_t *from = a, *to = self->scratch;
    for (int d = 0; d < DIGITS; d++) {
        if (pass(from, to, n, self->index_bits + d * DIGIT_BITS, self->count[d])) {
            uint64_t *swap = from;
            from = to;
            to = swap;
        }
    }
    if (from != a) {
        memcpy(a, from, (size_t)n * sizeof *a);
    }
}

static void insertion(const sorter_t *self, uint64_t *a, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const uint64_t word = a[i], value = image_at(self, word);
        int64_t j = i;
        for (; j > 0 && image_at(self, a[j - 1]) > value; j--) {
            a[j] = a[j - 1];
        }
        a[j] = word;
    }
}

static void sort_run(sorter_t *self, uint64_t *a, int64_t n)
{
    if (n <= SHORT_RUN) {
        insertion(self, a, n);
        return;
    }
    const int cut = make_keys(self, a, n);
    sort_keys(self, a, n);
    for (int64_t i = 0, end; cut > 0 && i < n; i = end) {
        const uint64_t key = a[i] >> self->index_bits;
        for (end = i + 1; end < n && a[end] >> self->index_bits == key; end++) {
        }
        if (end > i + 1) {
            sort_run(self, a + i, end - i);
        }
    }
}

int plb_sort_order(const double *x, int64_t n, plb_direction_t direction, int32_t *order,
                   double *sorted, plb_err_t *err)
{
    int ret = PLB_OK;
    uint64_t *a = NULL;
    sorter_t *self = NULL;
    PLB_NEW(self, 1);
    self->scratch = NULL;
    PLB_NEW(a, n);
    PLB_NEW(self->scratch, n);
    self->x = x;
    self->direction = direction;
    self->index_bits = n < 2 ? 1 : 64 - __builtin_clzll((uint64_t)n - 1);
    self->index_mask = (UINT64_C(1) << self->index_bits) - 1;
    for (int64_t i = 0; i < n; i++) {
        a[i] = (uint64_t)i;
    }
    sort_run(self, a, n);
    for (int64_t i = 0; i < n; i++) {
        order[i] = (int32_t)(a[i] & self->index_mask);
    }
    for (int64_t i = 0; sorted != NULL && i < n; i++) {
        sorted[i] = x[order[i]];
    }
out:
    if (self != NULL) {
        plb_free(self->scratch);
    }
    plb_free(self);
    plb_free(a);
    return ret;
}
