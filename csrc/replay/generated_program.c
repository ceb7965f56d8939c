#include "replay/replay.h"

#include <math.h>

double plb_program_time(const plb_program_t *self, int64_t s, int64_t i)
{
    double x = self->residual;
    if (self->growth != NULL) {
        x += self->growth[i - s];
    }
    if (self->drift != NULL) {
        x += fabs(self->drift[i] - (s == 0 ? self->start : self->drift[s - 1]));
    }
    if (self->noise != NULL) {
        x += self->noise[i];
    }
    return self->mean * (1.0 + (x > 0.0 ? x : 0.0));
}

int plb_program_run(const plb_program_t *self, plb_trigger_t *trigger, double cost, double *time,
                    int64_t *when, int64_t *n_steps, plb_err_t *err)
{
    int64_t s = 0;
    int ret = PLB_OK;
    *n_steps = 0;
    for (int64_t i = 0; ret == PLB_OK && i < self->n; i++) {
        time[i] = plb_program_time(self, s, i);
        const plb_observation_t o = {.iteration = i, .max = time[i], .mean = self->mean};
        ret = plb_trigger_observe(trigger, &o, err);
        if (ret == PLB_OK && trigger->verdict.balance && i + 1 < self->n) {
            when[(*n_steps)++] = i;
            s = i + 1;
            const double left = 1.0 + (self->residual > 0.0 ? self->residual : 0.0);
            ret = plb_trigger_balanced(trigger, i, cost, left, err);
        }
    }
    return ret;
}
