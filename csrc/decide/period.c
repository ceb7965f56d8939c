#include "decide/trigger.h"

#include <math.h>

void plb_fit_init(plb_fit_t *self, double memory)
{
    self->keep = 1.0 - 1.0 / memory;
    plb_fit_restart(self);
}

void plb_fit_restart(plb_fit_t *self)
{
    *self = (plb_fit_t){.keep = self->keep};
}

void plb_fit_add(plb_fit_t *self, double x, double y)
{
    if (self->n++ == 0) {
        self->origin = x;
    }
    x -= self->origin;
    self->weight = self->keep * self->weight + 1.0;
    const double dx = x - self->mean_x, dy = y - self->mean_y;
    self->mean_x += dx / self->weight;
    self->mean_y += dy / self->weight;
    self->sxx = self->keep * self->sxx + dx * (x - self->mean_x);
    self->sxy = self->keep * self->sxy + dx * (y - self->mean_y);
    self->syy = self->keep * self->syy + dy * (y - self->mean_y);
}

double plb_fit_slope(const plb_fit_t *self)
{
    return self->sxx > 0.0 ? self->sxy / self->sxx : 0.0;
}

double plb_fit_at(const plb_fit_t *self, double x)
{
    return self->mean_y + plb_fit_slope(self) * (x - self->origin - self->mean_x);
}

double plb_fit_spread(const plb_fit_t *self)
{
    if (self->n < 3) {
        return INFINITY;
    }
    const double left = self->syy - plb_fit_slope(self) * self->sxy;
    const double n = (double)self->n;
    return left > 0.0 ? sqrt(left / self->weight * (n / (n - 2.0))) : 0.0;
}

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
