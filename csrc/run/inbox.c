#include "run/run.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static bool is_sorted(const int32_t *order, const int64_t *source, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        if (source[order[i]] < source[order[i - 1]]) {
            return false;
        }
    }
    return true;
}

int plb_inbox_order(const int32_t *to, const int64_t *source, int64_t m, int64_t n, int64_t *start,
                    int32_t *order, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *spare = NULL;
    PLB_NEW(spare, m);
    memset(start, 0, (size_t)(n + 1) * sizeof *start);
    for (int64_t i = 0; i < m; i++) {
        start[to[i] + 1] += to[i] >= 0;
    }
    for (int64_t k = 0; k < n; k++) {
        start[k + 1] += start[k];
    }
    for (int64_t i = 0; i < m; i++) {
        if (to[i] >= 0) {
            order[start[to[i]]++] = (int32_t)i;
        }
    }
    /* the loop has moved each start[i] to the old start[i + 1]: shift back */
    memmove(start + 1, start, (size_t)n * sizeof *start);
    start[0] = 0;
    for (int64_t k = 0; k < n; k++) {
        int32_t *mine = order + start[k];
        const int64_t count = start[k + 1] - start[k];
        if (!is_sorted(mine, source, count)) {
            /* Bottom-up merge sort: stable, and fast even if one object receives very many
             * messages. */
            for (int64_t width = 1; width < count; width *= 2) {
                for (int64_t begin = 0; begin < count; begin += 2 * width) {
                    const int64_t middle = begin + width < count ? begin + width : count;
                    const int64_t end = middle + width < count ? middle + width : count;
                    int64_t a = begin, b = middle;
                    for (int64_t i = begin; i < end; i++) {
                        const bool left =
                            b == end || (a < middle && source[mine[a]] <= source[mine[b]]);
                        spare[i] = mine[left ? a++ : b++];
                    }
                }
                memcpy(mine, spare, (size_t)count * sizeof *mine);
            }
        }
    }
out:
    plb_free(spare);
    return ret;
}
