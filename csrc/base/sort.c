#include "base/base.h"

#include <string.h>

enum {
    DIGIT_BITS = 12, /* the counts of all digits, 16 KiB, stay in the first-level cache */
    PARTS = 1 << DIGIT_BITS,
    FEW_LOADS = PARTS, /* with fewer loads, a pass of the radix sort costs more than it saves */
    FEW = 16, /* insertion sort is the fastest for up to this many items (Sedgewick 1978) */
};

/* ---- items: put into bins by interpolation, then insertion sort ----------------------------- */

/* Sort from[n] into to[n], which may be the same array. */
static inline void insertion(const plb_item_t *from, int64_t n, plb_item_t *to)
{
    if (n < 1) {
        return;
    }
    plb_item_t last = to[0] = from[0];
    for (int64_t i = 1; i < n; i++) {
        const plb_item_t here = from[i];
        if (plb_item_before(last, here)) {
            to[i] = last = here;
            continue;
        }
        int64_t j = i;
        for (; j > 0 && plb_item_before(here, to[j - 1]); j--) {
            to[j] = to[j - 1];
        }
        to[j] = here;
        last = to[i];
    }
}

static void merge(const plb_item_t *a, const plb_item_t *a_end, const plb_item_t *b,
                  const plb_item_t *b_end, plb_item_t *to)
{
    while (a < a_end && b < b_end) {
        *to++ = plb_item_before(*b, *a) ? *b++ : *a++;
    }
    memcpy(to, a, (size_t)(a_end - a) * sizeof *to);
    memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof *to);
}

static void merge_sort(plb_item_t *item, int64_t n, plb_item_t *spare)
{
    int64_t k = 1;
    while (k < n && !plb_item_before(item[k], item[k - 1])) {
        k++;
    }
    if (k >= n) {
        return; /* sorted, e.g. equal keys */
    }
    plb_item_t *from = item, *to = spare;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            const int64_t middle = i + width < n ? i + width : n;
            const int64_t end = middle + width < n ? middle + width : n;
            merge(from + i, from + middle, from + middle, from + end, to + i);
        }
        plb_item_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != item) {
        memcpy(item, from, (size_t)n * sizeof *item);
    }
}

/* Replace each of count[n] by the index where its bin begins; return the largest count. */
static uint32_t starts(uint32_t *count, int64_t n)
{
    uint32_t sum = 0, most = 0;
    for (int64_t b = 0; b < n; b++) {
        const uint32_t here = count[b];
        count[b] = sum;
        sum += here;
        most = here > most ? here : most;
    }
    return most;
}

PLB_MULTIVERSION
void plb_sort_items(plb_item_t *item, int64_t n, double low, double high, plb_item_t *spare,
                    uint32_t *bin)
{
    const int64_t n_bins = 2 * n;
    const double scale = (double)(n_bins - 1) / (high - low);
    if (n <= FEW) {
        insertion(item, n, item);
        return;
    }
    if (!(scale > 0.0 && scale <= 1e300)) { /* the range of the keys is too small or infinite */
        merge_sort(item, n, spare);
        return;
    }
    memset(bin, 0, (size_t)n_bins * sizeof *bin);
    for (int64_t i = 0; i < n; i++) {
        bin[(int64_t)((item[i].key - low) * scale)]++;
    }
    const uint32_t most = starts(bin, n_bins);
    for (int64_t i = 0; i < n; i++) {
        spare[bin[(int64_t)((item[i].key - low) * scale)]++] = item[i];
    }
    uint32_t begin = 0; /* bin[b] is now the end of bin b */
    for (int64_t b = 0; most > FEW && b < n_bins; begin = bin[b++]) {
        if (bin[b] - begin > FEW) {
            merge_sort(spare + begin, bin[b] - begin, item + begin);
        }
    }
    insertion(spare, n, item);
}

/* ---- loads: first into parts by their leading bits, then each part is sorted as items ------- */

/* Map doubles to unsigned integers of the same order. */
static inline uint64_t image(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ ((uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63);
}

static double from_image(uint64_t bits)
{
    double x;
    bits ^= (uint64_t)((int64_t)~bits >> 63) | UINT64_C(1) << 63;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The key of a load; 0.0 is added so that -0.0 becomes 0.0. */
static inline double key_of(double x, double sign)
{
    return sign * x + 0.0;
}

/* Four independent chains of comparisons, which run in parallel in the processor. */
static void range_of(const double *x, int64_t n, double *low, double *high)
{
    double least[4], most[4];
    for (int k = 0; k < 4; k++) {
        least[k] = most[k] = x[0];
    }
    for (int64_t i = 0; i < n; i += 4) {
        for (int k = 0; k < 4; k++) {
            const double v = x[i + k < n ? i + k : n - 1];
            least[k] = v < least[k] ? v : least[k];
            most[k] = v > most[k] ? v : most[k];
        }
    }
    *low = least[0];
    *high = most[0];
    for (int k = 1; k < 4; k++) {
        *low = least[k] < *low ? least[k] : *low;
        *high = most[k] > *high ? most[k] : *high;
    }
}

struct plb_sort_parts {
    double low, high;  /* the smallest and the largest key */
    uint64_t first;    /* image() of the smallest key */
    int shift;         /* part = (image - first) >> shift */
    uint64_t n, next;  /* number of parts in use; the first part that is not sorted */
    uint32_t largest;  /* number of items in the largest part */
    plb_item_t *spare; /* [size of the largest part] */
    uint32_t *bin;     /* [PLB_SORT_BINS(size of the largest part)] */
    uint32_t end[PARTS];
};

static inline uint64_t part_of(const struct plb_sort_parts *self, double key)
{
    return (image(key) - self->first) >> self->shift;
}

PLB_MULTIVERSION
int plb_loads_init(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                   plb_err_t *err)
{
    int ret = PLB_OK;
    const double sign = direction == PLB_ASCENDING ? 1.0 : -1.0;
    *self = (plb_loads_t){.n = n};
    PLB_NEW(self->item, n);
    PLB_NEW(self->parts, 1);
    struct plb_sort_parts *parts = self->parts;
    parts->spare = NULL;
    parts->bin = NULL;
    /* Choose the parts, and set end[k] to the index where part k begins.  Writing the items then
     * moves end[k] to the end of the part. */
    double low = 0.0, high = 0.0;
    if (n > 0) {
        range_of(x, n, &low, &high);
    }
    const double a = key_of(low, sign), b = key_of(high, sign);
    parts->low = a < b ? a : b;
    parts->high = a < b ? b : a;
    parts->first = image(parts->low);
    const uint64_t range = image(parts->high) - parts->first;
    const int used = range == 0 ? 0 : 64 - __builtin_clzll(range);
    parts->shift = n < FEW_LOADS ? 63 : used > DIGIT_BITS ? used - DIGIT_BITS : 0;
    parts->n = part_of(parts, parts->high) + 1;
    parts->next = 0;
    memset(parts->end, 0, parts->n * sizeof *parts->end);
    for (int64_t i = 0; i < n; i++) {
        parts->end[part_of(parts, key_of(x[i], sign))]++;
    }
    parts->largest = starts(parts->end, (int64_t)parts->n);
    PLB_TRY(plb_interrupted(n));
    PLB_NEW(parts->spare, parts->largest);
    PLB_NEW(parts->bin, PLB_SORT_BINS(parts->largest));
    for (int64_t i = 0; i < n; i++) {
        const double key = key_of(x[i], sign);
        self->item[parts->end[part_of(parts, key)]++] = (plb_item_t){key, (int32_t)i};
    }
out:
    if (ret != PLB_OK) {
        plb_loads_free(self);
    }
    return ret;
}

void plb_loads_sort(plb_loads_t *self, int64_t upto)
{
    while (self->ready < upto) {
        const uint64_t part = self->parts->next++;
        if (self->parts->end[part] > self->ready) {
            const struct plb_sort_parts *parts = self->parts;
            const uint64_t first = parts->first + (part << parts->shift);
            const uint64_t last = first + ((UINT64_C(1) << parts->shift) - 1);
            const double low = part == 0 ? parts->low : from_image(first);
            const double high =
                last > first && last < image(parts->high) ? from_image(last) : parts->high;
            plb_sort_items(self->item + self->ready, parts->end[part] - self->ready, low, high,
                           parts->spare, parts->bin);
            self->ready = self->parts->end[part];
        }
    }
}

int plb_loads_sorted(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                     plb_err_t *err)
{
    int ret;
    PLB_TRY(plb_loads_init(self, x, n, direction, err));
    for (int64_t done = 0; done < n; done = self->ready) {
        plb_loads_sort(self, done + 1); /* sorts one more part */
        PLB_TRY(plb_interrupted(8 * (self->ready - done)));
    }
out:
    if (ret != PLB_OK) {
        plb_loads_free(self);
    }
    return ret;
}

void plb_loads_free(plb_loads_t *self)
{
    if (self->parts != NULL) {
        PLB_FREE(self->parts->spare, self->parts->bin);
    }
    PLB_FREE(self->parts, self->item);
    *self = (plb_loads_t){0};
}

int plb_groups_init(plb_groups_t *self, const int32_t *group, int64_t n, int32_t n_groups,
                    plb_err_t *err)
{
    *self = (plb_groups_t){0};
    PLB_PASS_NEW0(self->start, n_groups + 2);
    PLB_PASS_NEW(self->item, n);
    for (int64_t i = 0; i < n; i++) {
        self->start[group[i] + 2]++;
    }
    for (int32_t g = 0; g < n_groups; g++) {
        self->start[g + 2] += self->start[g + 1];
    }
    /* this loop moves start[g + 1] from the beginning of group g to its end */
    for (int64_t i = 0; i < n; i++) {
        self->item[self->start[group[i] + 1]++] = (int32_t)i;
    }
    return PLB_OK;
}

void plb_groups_free(plb_groups_t *self)
{
    PLB_FREE(self->start, self->item);
}

double plb_nth(double *x, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1; /* Hoare's selection algorithm (quickselect) */
    while (low < high) {
        const double pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) {
                i++;
            }
            while (x[j] > pivot) {
                j--;
            }
            if (i <= j) {
                const double swap = x[i];
                x[i++] = x[j];
                x[j--] = swap;
            }
        }
        if (k <= j) {
            high = j;
        } else if (k >= i) {
            low = i;
        } else {
            break;
        }
    }
    return x[k];
}

double plb_median(double *x, int64_t n)
{
    const int64_t half = (n - 1) / 2;
    const double low = plb_nth(x, n, half);
    return 0.5 * (low + plb_nth(x + half, n - half, n / 2 - half));
}
