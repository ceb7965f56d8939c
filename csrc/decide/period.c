#include "decide/period.h"

#include <math.h>

void plb_period_init(plb_period_t *self, double memory)
{
    plb_fit_init(&self->max, memory);
    plb_fit_init(&self->mean, memory);
}

void plb_period_restart(plb_period_t *self)
{
    plb_fit_restart(&self->max);
    plb_fit_restart(&self->mean);
}

void plb_period_add(plb_period_t *self, double x, double max, double mean)
{
    plb_fit_add(&self->max, x, max);
    plb_fit_add(&self->mean, x, mean);
}

double plb_period_growth(const plb_period_t *self, double residual)
{
    return plb_fit_slope(&self->max) - residual * plb_fit_slope(&self->mean);
}

double plb_period_tau(double cost, double growth)
{
    return growth > 0.0 ? sqrt(2.0 * cost / growth) : INFINITY;
}
