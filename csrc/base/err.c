#include "base/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int plb_check_fail(const char *expected, const plb_figure_t *figure, plb_err_t *err)
{
    return PLB_FAIL(err, PLB_ERR_VALUE, "%s is %g: expected %s", figure->name, figure->value,
                    expected);
}

int plb_check_coords(const double *coords, int64_t n, int32_t n_dims, plb_err_t *err)
{
    for (int64_t i = 0; coords != NULL && i < n * n_dims; i++) {
        PLB_FAIL_IF(!(fabs(coords[i]) <= 1e150), err, PLB_ERR_VALUE,
                    "coords[%lld, %lld] is %g: expected a number from -1e150 to 1e150",
                    (long long)(i / n_dims), (long long)(i % n_dims), coords[i]);
    }
    return PLB_OK;
}

int plb_fail(plb_err_t *err, int code, const char *file, int line, const char *fmt, ...)
{
    plb_err_t unread, *to = err == NULL ? &unread : err;
    va_list args;
    va_start(args, fmt);
    to->code = code;
    vsnprintf(to->text, sizeof to->text, fmt, args);
    va_end(args);
    const char *trace = getenv("PLB_TRACE");
    if (trace != NULL && strcmp(trace, "1") == 0) {
        fprintf(stderr, "pylb: %s:%d: %s\n", file, line, to->text);
    }
    return code;
}

int plb_params_check(const plb_param_t *params, int n, const double *value, plb_err_t *err)
{
    for (int i = 0; i < n; i++) {
        const plb_param_t *p = &params[i];
        /* this form of the test is also true for NaN */
        if (!(value[i] >= p->least && value[i] <= p->most)) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s is %g: expected %g ... %g %s", p->name,
                            value[i], p->least, p->most, p->unit);
        }
    }
    return PLB_OK;
}
