#include "base/check.h"

#include <math.h>
#include <stdbool.h>

static const struct {
    double least, most;
    const char *expected;
} DOMAINS[] = {
#define X(name, least, most, expected) {least, most, expected},
    PLB_DOMAINS(X)
#undef X
};

static int check(plb_domain_t domain, bool unknown, const plb_figure_t *figure, size_t n,
                 plb_err_t *err)
{
    for (size_t i = 0; i < n; i++) {
        const double x = figure[i].value;
        if (!(x >= DOMAINS[domain].least && x <= DOMAINS[domain].most) && !(unknown && isnan(x))) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s is %g: expected %s", figure[i].name, x,
                            DOMAINS[domain].expected);
        }
    }
    return PLB_OK;
}

int plb_check(plb_domain_t domain, const plb_figure_t *figure, size_t n, plb_err_t *err)
{
    return check(domain, false, figure, n, err);
}

int plb_check_known(plb_domain_t domain, const plb_figure_t *figure, size_t n, plb_err_t *err)
{
    return check(domain, true, figure, n, err);
}
