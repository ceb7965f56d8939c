#include "base/param.h"

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
