/* Checks that numbers from the caller of pylb's C code are in their domains (ranges). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* X(name, least, most, what is expected).  NaN is outside of every domain. */
#define PLB_DOMAINS(X)                                                                            \
    X(SECONDS, 0.0, 1e30, "seconds, 0 ... 1e30")                                                  \
    X(AMOUNT, 0.0, 1e30, "a number, 0 ... 1e30")                                                  \
    X(FINITE, -1e30, 1e30, "a number, -1e30 ... 1e30")                                            \
    X(RATIO, 1.0 - 1e-9, 1e30,                                                                    \
      "max/mean, 1 ... 1e30") /* rounding may make max / mean a little less than 1 */             \
    X(FRACTION, 0.0, 1.0, "0 ... 1")

/** Check that coords[n, n_dims] are in -1e150 ... 1e150, so that sums of their squares are finite.
 * NULL: nothing is checked. */
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

/** Write the error message for a number outside of its domain; return PLB_ERR_VALUE. */
int plb_check_fail(plb_domain_t domain, const plb_figure_t *figure, plb_err_t *err);

/** Check n named numbers.  Inline: if domain and n are constant, only the comparisons remain. */
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

/** Like plb_check, but NaN is allowed: it stands for an unknown number. */
int plb_check_known(plb_domain_t domain, const plb_figure_t *figure, size_t n, plb_err_t *err);

/* The arguments `figure` and `n` of plb_check, from a list of numbers {name, value}, ... */
#define PLB_FIGURES(...)                                                                          \
    (plb_figure_t[]){__VA_ARGS__}, sizeof((plb_figure_t[]){__VA_ARGS__}) / sizeof(plb_figure_t)

/* A plb_figure_t from a member of the struct `from`: the name of the member, and its value. */
#define PLB_FIGURE(from, member)                                                                  \
    {                                                                                             \
#member, (double)(from)->member                                                           \
    }
