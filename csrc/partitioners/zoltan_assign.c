/* Which parts are where: the cuts that Zoltan keeps, asked for many points or boxes at a time. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "partitioners/zoltan.h"

int plb_zoltan_points(struct Zoltan_Struct *zz, int32_t n_dims, int64_t n, const double *points,
                      int32_t *part, plb_err_t *err)
{
    double x[3] = {0.0, 0.0, 0.0};
    int rank, where;
    for (int64_t i = 0; i < n; i++) {
        memcpy(x, points + i * n_dims, (size_t)n_dims * sizeof *x);
        if (Zoltan_LB_Point_PP_Assign(zz, x, &rank, &where) != ZOLTAN_OK) {
            return PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan does not find point %lld", (long long)i);
        }
        part[i] = where;
    }
    return PLB_OK;
}

/* By insertion: a box meets few parts. */
static void sort_few(int *x, int n)
{
    for (int i = 1; i < n; i++) {
        const int value = x[i];
        int j = i;
        for (; j > 0 && x[j - 1] > value; j--) {
            x[j] = x[j - 1];
        }
        x[j] = value;
    }
}

static int check_box(int64_t i, int32_t n_dims, const double *lo, const double *hi, plb_err_t *err)
{
    for (int d = 0; d < n_dims; d++) {
        const double *const side[2] = {lo, hi};
        for (int k = 0; k < 2; k++) {
            if (!isfinite(side[k][d])) {
                return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld, %d] is %g: expected a finite number",
                                k == 0 ? "lo" : "hi", (long long)i, d, side[k][d]);
            }
        }
        if (lo[d] > hi[d]) {
            return PLB_FAIL(err, PLB_ERR_VALUE,
                            "box %lld is inside out: lo[%lld, %d] is %g, hi[%lld, %d] is %g",
                            (long long)i, (long long)i, d, lo[d], (long long)i, d, hi[d]);
        }
    }
    return PLB_OK;
}

int plb_zoltan_boxes(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts, int64_t n,
                     const double *lo, const double *hi, int64_t *start, int32_t **part,
                     plb_err_t *err)
{
    int ret = PLB_OK, n_ranks = 0, met = 0;
    int64_t used = 0, room = 2 * n + n_parts;
    double a[3] = {0.0, 0.0, 0.0}, b[3] = {0.0, 0.0, 0.0};
    *part = NULL;
    PLB_NEW(*part, room);
    start[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        ret = check_box(i, n_dims, lo + i * n_dims, hi + i * n_dims, err);
        if (ret != PLB_OK) {
            goto out;
        }
        if (room - used < n_parts) {
            room += room / 2 + n_parts;
            int32_t *larger = plb_realloc(*part, (size_t)room, sizeof **part);
            if (larger == NULL) {
                ret = PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld parts", (long long)room);
                goto out;
            }
            *part = larger;
        }
        memcpy(a, lo + i * n_dims, (size_t)n_dims * sizeof *a);
        memcpy(b, hi + i * n_dims, (size_t)n_dims * sizeof *b);
        if (Zoltan_LB_Box_PP_Assign(zz, a[0], a[1], a[2], b[0], b[1], b[2], NULL, &n_ranks,
                                    *part + used, &met) != ZOLTAN_OK) {
            ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan does not find box %lld", (long long)i);
            goto out;
        }
        sort_few(*part + used, met);
        used += met;
        start[i + 1] = used;
    }
out:
    if (ret != PLB_OK) {
        plb_free(*part);
        *part = NULL;
    }
    return ret;
}

int plb_zoltan_regions(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts, double *lo,
                       double *hi, plb_err_t *err)
{
    for (int32_t r = 0; r < n_parts; r++) {
        double a[3], b[3];
        int dims;
        if (Zoltan_RCB_Box(zz, r, &dims, &a[0], &a[1], &a[2], &b[0], &b[1], &b[2]) != ZOLTAN_OK) {
            return PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan has no box for part %d", r);
        }
        memcpy(lo + (int64_t)r * n_dims, a, (size_t)n_dims * sizeof *a);
        memcpy(hi + (int64_t)r * n_dims, b, (size_t)n_dims * sizeof *b);
    }
    return PLB_OK;
}
