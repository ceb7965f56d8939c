/* Finds the parts of many points or boxes, from the cuts of space that Zoltan keeps. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "partition/libraries/zoltan.h"

int plb_zoltan_points(struct Zoltan_Struct *zz, int32_t n_dims, int64_t n, const double *points,
                      int32_t *part, plb_err_t *err)
{
    double x[3] = {0.0, 0.0, 0.0};
    int rank, where;
    for (int64_t i = 0; i < n; i++) {
        memcpy(x, points + i * n_dims, (size_t)n_dims * sizeof *x);
        PLB_FAIL_IF(Zoltan_LB_Point_PP_Assign(zz, x, &rank, &where) != ZOLTAN_OK, err,
                    PLB_ERR_LIBRARY, "Zoltan found no part for point %lld", (long long)i);
        part[i] = where;
    }
    return PLB_OK;
}

/* by insertion, because a box meets few parts */
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
            PLB_FAIL_IF(!isfinite(side[k][d]), err, PLB_ERR_VALUE,
                        "%s[%lld, %d] is %g: expected a finite number", k == 0 ? "lo" : "hi",
                        (long long)i, d, side[k][d]);
        }
        PLB_FAIL_IF(lo[d] > hi[d], err, PLB_ERR_VALUE,
                    "box %lld is empty: lo[%lld, %d] is %g, hi[%lld, %d] is %g", (long long)i,
                    (long long)i, d, lo[d], (long long)i, d, hi[d]);
    }
    return PLB_OK;
}

/* Find met[*n], the parts that a box meets, ascending. */
static int one_box(struct Zoltan_Struct *zz, int32_t n_dims, const double *lo, const double *hi,
                   const int32_t *name, int *met, int *n)
{
    double a[3] = {0.0, 0.0, 0.0}, b[3] = {0.0, 0.0, 0.0};
    int n_ranks = 0;
    memcpy(a, lo, (size_t)n_dims * sizeof *a);
    memcpy(b, hi, (size_t)n_dims * sizeof *b);
    const int code =
        Zoltan_LB_Box_PP_Assign(zz, a[0], a[1], a[2], b[0], b[1], b[2], NULL, &n_ranks, met, n);
    for (int i = 0; code == ZOLTAN_OK && name != NULL && i < *n; i++) {
        met[i] = name[met[i]];
    }
    sort_few(met, code == ZOLTAN_OK ? *n : 0);
    return code;
}

int plb_zoltan_boxes(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts,
                     const int32_t *name, int64_t n, const double *lo, const double *hi,
                     int64_t *start, int32_t **part, plb_err_t *err)
{
    int ret = PLB_OK, met = 0;
    int64_t room = 2 * n + n_parts;
    *part = NULL;
    PLB_NEW(*part, room);
    start[0] = 0;
    for (int64_t i = 0; ret == PLB_OK && i < n; i++) {
        const double *low = lo + i * n_dims, *high = hi + i * n_dims;
        PLB_TRY(check_box(i, n_dims, low, high, err));
        PLB_GROW(*part, room, start[i] + n_parts);
        if (one_box(zz, n_dims, low, high, name, *part + start[i], &met) != ZOLTAN_OK) {
            ret =
                PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan found no parts for box %lld", (long long)i);
        }
        start[i + 1] = start[i] + met;
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
        PLB_FAIL_IF(Zoltan_RCB_Box(zz, r, &dims, &a[0], &a[1], &a[2], &b[0], &b[1], &b[2]) !=
                        ZOLTAN_OK,
                    err, PLB_ERR_LIBRARY, "Zoltan has no box for part %d", r);
        memcpy(lo + (int64_t)r * n_dims, a, (size_t)n_dims * sizeof *a);
        memcpy(hi + (int64_t)r * n_dims, b, (size_t)n_dims * sizeof *b);
    }
    return PLB_OK;
}
