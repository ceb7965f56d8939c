#include "comm/transport.h"

#include <stdbool.h>
#include <string.h>

#include "base/base.h"

/* Check the destinations.  *sorted: whether the items are already in order of rank. */
static int check(const int32_t *dest, int64_t n, int32_t n_ranks, bool *sorted, plb_err_t *err)
{
    int32_t last = 0, falls = 0;
    PLB_FAIL_IF(n > INT32_MAX, err, PLB_ERR_RANGE,
                "%lld items on a rank: expected fewer than 2^31", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(dest[i] < 0 || dest[i] >= n_ranks, err, PLB_ERR_RANGE,
                    "destination[%lld] is %d: expected 0 ... %d", (long long)i, dest[i],
                    n_ranks - 1);
        falls |= dest[i] < last;
        last = dest[i];
    }
    *sorted = !falls;
    return PLB_OK;
}

int plb_route_init(plb_route_t *self, const int32_t *dest, int64_t n, int32_t n_ranks,
                   plb_err_t *err)
{
    int ret = PLB_OK;
    bool sorted = true;
    int64_t *count = NULL;
    *self = (plb_route_t){0};
    PLB_PASS(check(dest, n, n_ranks, &sorted, err));
    PLB_NEW0(count, n_ranks);
    for (int64_t i = 0; i < n; i++) {
        count[dest[i]]++;
    }
    /* Set self->rank and self->start; count[r] becomes the index of the first item of rank r. */
    int32_t k = 0;
    for (int32_t r = 0; r < n_ranks; r++) {
        k += count[r] > 0;
    }
    PLB_NEW(self->rank, k);
    PLB_NEW(self->start, k + 1);
    self->start[0] = 0;
    for (int32_t r = 0; r < n_ranks; r++) {
        if (count[r] > 0) {
            self->rank[self->n_peers] = r;
            self->start[self->n_peers + 1] = self->start[self->n_peers] + count[r];
            count[r] = self->start[self->n_peers++];
        }
    }
    if (!sorted) {
        PLB_NEW(self->order, n);
        for (int64_t i = 0; i < n; i++) {
            self->order[count[dest[i]]++] = (int32_t)i;
        }
    }
out:
    plb_free(count);
    if (ret != PLB_OK) {
        plb_route_free(self);
    }
    return ret;
}

void plb_route_free(plb_route_t *self)
{
    PLB_FREE(self->rank, self->start, self->order);
    *self = (plb_route_t){0};
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Copy with a constant size where possible: this compiles to a few loads and stores. */
#define BY_SIZE(bytes, COPY)                                                                      \
    switch (bytes) {                                                                              \
        OF_SIZE(1, COPY)                                                                          \
        OF_SIZE(2, COPY)                                                                          \
        OF_SIZE(4, COPY)                                                                          \
        OF_SIZE(8, COPY)                                                                          \
        OF_SIZE(12, COPY)                                                                         \
        OF_SIZE(16, COPY)                                                                         \
        OF_SIZE(24, COPY)                                                                         \
        OF_SIZE(32, COPY)                                                                         \
    default:                                                                                      \
        COPY((size_t)bytes)                                                                       \
    }
#define OF_SIZE(size, COPY)                                                                       \
    case size:                                                                                    \
        COPY(size)                                                                                \
        break;

void plb_gather(const char *from, const int64_t *offset, const int32_t *index, int64_t n,
                int64_t bytes, char *to)
{
    for (int64_t i = 0; offset != NULL && i < n; i++) {
        const int64_t at = offset[index[i]], size = (offset[index[i] + 1] - at) * bytes;
        memcpy(to, from + at * bytes, (size_t)size);
        to += size;
    }
    if (offset != NULL) {
        return;
    }
#define COPY(size)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                             \
        memcpy(to + i * (int64_t)(size), from + index[i] * (int64_t)(size), (size));              \
    }
    BY_SIZE(bytes, COPY)
#undef COPY
}

void plb_scatter(const char *from, const int64_t *offset, const int32_t *index, int64_t n,
                 int64_t bytes, char *to)
{
    for (int64_t i = 0; offset != NULL && i < n; i++) {
        const int64_t at = offset[index[i]], size = (offset[index[i] + 1] - at) * bytes;
        memcpy(to + at * bytes, from, (size_t)size);
        from += size;
    }
    if (offset != NULL) {
        return;
    }
#define COPY(size)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                             \
        memcpy(to + index[i] * (int64_t)(size), from + i * (int64_t)(size), (size));              \
    }
    BY_SIZE(bytes, COPY)
#undef COPY
}
