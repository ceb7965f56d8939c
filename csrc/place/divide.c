#include <math.h>

#include "base/mem.h"
#include "base/sort.h"
#include "place/strategy.h"

/* Remainders are rounded to multiples of this, so that rounding errors do not decide ties. */
static const double GRAIN = 1.0 / (1 << 20);

/* Compute the sum of share[p], which are checked. */
static int apportion_total(const double *share, int32_t p, double *total, plb_err_t *err)
{
    *total = 0.0;
    for (int32_t i = 0; i < p; i++) {
        PLB_FAIL_IF(!(share[i] >= 0.0 && isfinite(share[i])), err, PLB_ERR_VALUE,
                    "share[%d] is %g: expected a finite number, 0 or more", i, share[i]);
        *total += share[i];
    }
    PLB_FAIL_IF(!(*total > 0.0 && isfinite(*total)), err, PLB_ERR_VALUE,
                "shares add up to %g: expected a finite number above 0", *total);
    return PLB_OK;
}

int plb_apportion(const double *share, int32_t p, int64_t n, int64_t *part, plb_err_t *err)
{
    double total, *remainder = NULL;
    plb_loads_t order = {0};
    int64_t left = n;
    int ret = apportion_total(share, p, &total, err);
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW(remainder, p);
    for (int32_t i = 0; i < p; i++) {
        const double exact = share[i] / total * (double)n;
        part[i] = (int64_t)exact;
        remainder[i] = GRAIN * round((exact - (double)part[i]) / GRAIN);
        /* a part without a share gets no extra unit */
        remainder[i] = share[i] > 0.0 ? remainder[i] : -1.0;
        left -= part[i];
    }
    ret = plb_loads_init(&order, remainder, p, PLB_DESCENDING, err);
    if (ret == PLB_OK) {
        plb_loads_sort(&order, left < p ? left : p);
        for (int32_t k = 0; left > 0 && k < p; k++, left--) {
            part[order.item[k].id]++;
        }
    }
    plb_loads_free(&order);
out:
    plb_free(remainder);
    return ret;
}

/* ---- rectangles ----------------------------------------------------------------------------- */

/* For each column: the sum of its processors' shares, and how many shares are above 0. */
typedef struct columns {
    double *share;
    int64_t *busy;
} columns_t;

static int columns_init(columns_t *self, const double *share, const int32_t *column, int32_t p,
                        plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (columns_t){0};
    PLB_NEW0_EACH(p, self->share, self->busy);
    for (int32_t i = 0; i < p; i++) {
        if (column[i] < 0 || column[i] >= p) {
            ret = PLB_FAIL(err, PLB_ERR_RANGE, "column[%d] is %d: expected 0 ... %d", i, column[i],
                           p - 1);
            goto out;
        }
        self->share[column[i]] += share[i];
        self->busy[column[i]] += share[i] > 0.0;
    }
out:
    return ret;
}

static void columns_free(columns_t *self)
{
    PLB_FREE(self->share, self->busy);
}

int plb_rectangles_perimeter(const double *share, const int32_t *column, int32_t p, double rows,
                             double cols, double *perimeter, plb_err_t *err)
{
    columns_t columns;
    double total = 0.0;
    int ret = PLB_OK;
    *perimeter = 0.0;
    PLB_TRY(columns_init(&columns, share, column, p, err));
    PLB_TRY(apportion_total(share, p, &total, err));
    for (int32_t c = 0; c < p; c++) {
        if (columns.busy[c] > 0) {
            *perimeter += rows + cols * columns.share[c] / total * (double)columns.busy[c];
        }
    }
out:
    columns_free(&columns);
    return ret;
}

/* For each k up to n, divide the processors with the k largest shares into columns such that
 * cost[k], the sum of half perimeters, is smallest.  from[k]: index of the first share in the last
 * of these columns.  above[k]: the sum of the k largest shares. */
static void cut(const double *above, int32_t n, double rows, double cols, double *cost,
                int32_t *from)
{
    cost[0] = 0.0;
    for (int32_t k = 1; k <= n; k++) {
        cost[k] = INFINITY;
        for (int32_t j = 0; j < k; j++) {
            const double width = cols * (above[k] - above[j]) / above[n];
            const double here = cost[j] + rows + width * (double)(k - j);
            if (here < cost[k]) {
                cost[k] = here;
                from[k] = j;
            }
        }
    }
}

static void number(const int32_t *of, int32_t p, int32_t *first, int32_t *column)
{
    int32_t n = 0;
    for (int32_t c = 0; c < p; c++) {
        first[c] = -1;
    }
    for (int32_t i = 0; i < p; i++) {
        if (first[of[i]] < 0) {
            first[of[i]] = n++;
        }
        column[i] = first[of[i]];
    }
}

int plb_rectangles_columns(const double *share, int32_t p, double rows, double cols,
                           int32_t *column, double *perimeter, plb_err_t *err)
{
    plb_loads_t order = {0};
    double total, *above = NULL, *cost = NULL;
    int32_t *from = NULL, *of = NULL, n = 0;
    int ret = apportion_total(share, p, &total, err);
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW_EACH((int64_t)p + 1, above, cost, from);
    PLB_NEW0(of, p);
    PLB_TRY(plb_loads_sorted(&order, share, p, PLB_DESCENDING, err));
    above[0] = 0.0;
    /* processors without a share stay in column 0, that of the largest share */
    for (; n < p && share[order.item[n].id] > 0.0; n++) {
        above[n + 1] = above[n] + share[order.item[n].id];
    }
    cut(above, n, rows, cols, cost, from);
    for (int32_t k = n; k > 0; k = from[k]) {
        for (int32_t j = from[k]; j < k; j++) {
            of[order.item[j].id] = from[k];
        }
    }
    *perimeter = cost[n];
    number(of, p, from, column);
out:
    plb_loads_free(&order);
    PLB_FREE(above, cost, from, of);
    return ret;
}

/* Make the rectangles of column c, which has the grid's columns first[0] ... first[1] - 1. */
static int stack(const double *share, const int32_t *column, int32_t p, int32_t c, int64_t rows,
                 const int64_t *first, double *mine, int64_t *height, int64_t *box, plb_err_t *err)
{
    int64_t at = 0;
    for (int32_t i = 0; i < p; i++) {
        mine[i] = column[i] == c ? share[i] : 0.0;
    }
    PLB_PASS(plb_apportion(mine, p, rows, height, err));
    for (int32_t i = 0; i < p; i++) {
        if (column[i] == c) {
            box[4 * i] = at;
            at += height[i];
            box[4 * i + 1] = at;
            box[4 * i + 2] = first[0];
            box[4 * i + 3] = first[1];
        }
    }
    return PLB_OK;
}

int plb_rectangles_place(const double *share, const int32_t *column, int32_t p, int64_t rows,
                         int64_t cols, int64_t *box, plb_err_t *err)
{
    columns_t columns;
    int64_t *width = NULL, *height = NULL;
    double *mine = NULL;
    int ret = columns_init(&columns, share, column, p, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW_EACH(p, width, height, mine);
    PLB_TRY(plb_apportion(columns.share, p, cols, width, err));
    int64_t first[2] = {0, 0};
    for (int32_t c = 0; c < p; c++) {
        first[1] = first[0] + width[c];
        if (columns.busy[c] > 0) {
            PLB_TRY(stack(share, column, p, c, rows, first, mine, height, box, err));
        } else {
            for (int32_t i = 0; i < p; i++) {
                if (column[i] == c) {
                    box[4 * i] = box[4 * i + 1] = 0;
                    box[4 * i + 2] = box[4 * i + 3] = first[0];
                }
            }
        }
        first[0] = first[1];
    }
out:
    PLB_FREE(width, height, mine);
    columns_free(&columns);
    return ret;
}
