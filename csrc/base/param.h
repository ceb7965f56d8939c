/* Parameters: numbers that a user may set, with default, range and help text in a table. */
#pragma once

#include "base/err.h"

typedef struct plb_param {
    const char *name, *unit, *help;
    double fallback, least, most; /* the default; the range least ... most, both included */
} plb_param_t;

/* One plb_param_t from a row X(name, unit, default, least, most, help) of an X-macro. */
#define PLB_PARAM_ROW(name, unit, fallback, least, most, help)                                    \
    {#name, unit, help, fallback, least, most},

/** Check value[n], the values of params[n]; PLB_ERR_VALUE if one is out of its range. */
int plb_params_check(const plb_param_t *params, int n, const double *value, plb_err_t *err);
