/* Checks of numbers that come from outside.  Each number belongs to a domain of the table below.
 */
#ifndef PLB_BASE_CHECK_H
#define PLB_BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* X(name, least, most, what is expected).  NaN is outside of every domain. */
#define PLB_DOMAINS(X)                                                                            \
    X(SECONDS, 0.0, 1e30, "seconds, zero or more")                                                \
    X(AMOUNT, 0.0, 1e30, "a finite number, zero or more")                                         \
    X(FINITE, -1e30, 1e30, "a finite number of seconds")                                          \
    X(RATIO, 1.0 - 1e-9, 1e30,                                                                    \
      "max/mean, 1 or more") /* rounding may make max / mean a little less than 1 */              \
    X(FRACTION, 0.0, 1.0, "0 ... 1")

/** Check that the coordinates of n points are in -1e150 ... 1e150, so that squares of coordinates,
 * and sums of these, are finite.  PLB_ERR_VALUE names the point and the direction. */
int plb_check_coords(const double *coords, int64_t n, int32_t n_dims, plb_err_t *err);

typedef enum plb_domain {
#define X(name, least, most, expected) PLB_##name,
    PLB_DOMAINS(X)
#undef X
} plb_domain_t;

typedef struct plb_range {
    double least, most;
    const char *expected;
} plb_range_t;

static const plb_range_t PLB_RANGES[] = {
#define X(name, least, most, expected) {least, most, expected},
    PLB_DOMAINS(X)
#undef X
};

typedef struct plb_figure {
    const char *name;
    double value;
} plb_figure_t;

/** Write the error message for a figure outside of its domain; return PLB_ERR_VALUE. */
int plb_check_fail(plb_domain_t domain, const plb_figure_t *figure, plb_err_t *err);

/** Check figure[n]; PLB_ERR_VALUE if one of them is outside the domain.  It is inline, so that
 *  only the comparisons remain if domain and n are constants. */
static inline int plb_check(plb_domain_t domain, const plb_figure_t *figure, size_t n,
                            plb_err_t *err)
{
    for (size_t i = 0; i < n; i++) {
        const double x = figure[i].value;
        if (!(x >= PLB_RANGES[domain].least && x <= PLB_RANGES[domain].most)) {
            return plb_check_fail(domain, &figure[i], err);
        }
    }
    return PLB_OK;
}

/** Like plb_check, but NaN is allowed: it stands for an unknown figure. */
int plb_check_known(plb_domain_t domain, const plb_figure_t *figure, size_t n, plb_err_t *err);

/* A list of figures {name, value}, ... for plb_check and plb_check_known. */
#define PLB_FIGURES(...)                                                                          \
    (plb_figure_t[]){__VA_ARGS__}, sizeof((plb_figure_t[]){__VA_ARGS__}) / sizeof(plb_figure_t)

/* A member of a struct as a figure, named like the member. */
#define PLB_FIGURE(from, member)                                                                  \
    {                                                                                             \
#member, (double)(from)->member                                                           \
    }

#endif
