#include "decide/decider.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

const plb_param_t plb_ledger_params[] = {PLB_LEDGER(PLB_PARAM_ROW)};

/* number of iterations in a row whose high imbalance allows an early trial; one may be a spike */
enum { IN_A_ROW = 3 };

int plb_ledger_init(plb_ledger_t *self, int32_t n, const double *params, plb_err_t *err)
{
    *self = (plb_ledger_t){.n = n, .strategy = -1, .warm_up = NAN};
    int ret = PLB_OK;
    PLB_TRY(plb_params_check(plb_ledger_params, PLB_N_LEDGER, params, err));
    memcpy(self->params, params, sizeof self->params);
    PLB_NEW0(self->accounts, n);
out:
    return ret;
}

void plb_ledger_free(plb_ledger_t *self)
{
    plb_free(self->accounts);
    self->accounts = NULL;
}

/* ---- costs ---------------------------------------------------------------------------------- */

/* NaN, zero or negative: not reported */
static double reported(double x)
{
    return x > 0.0 ? x : 0.0;
}

static double halfway(double known, double measured, bool first)
{
    return first ? measured : 0.5 * (known + measured);
}

double plb_ledger_theta(const plb_ledger_t *self, int32_t strategy)
{
    if (strategy < 0 || strategy >= self->n || self->accounts[strategy].n == 0) {
        return NAN;
    }
    return self->accounts[strategy].cost + self->accounts[strategy].warm_up;
}

/* Compare with the longest later iteration (decider.h), so that noise does not count as warm-up.
 */
static void warmed_up(plb_ledger_t *self)
{
    const double *t = self->times;
    double beyond = 0.0, later = 0.0;
    for (int i = 0; i < PLB_WARM_UP; i++) {
        beyond += t[i];
        later = fmax(later, t[PLB_WARM_UP + i]);
    }
    beyond -= PLB_WARM_UP * later;
    plb_account_t *account = &self->accounts[self->strategy];
    self->warm_up = fmax(beyond, 0.0);
    const double more = self->warm_up - self->felt;
    self->cost += self->open ? more : 0.0;
    account->warm_up = halfway(account->warm_up, more, account->n == 1);
}

/* ---- iterations and LB steps ---------------------------------------------------------------- */

void plb_ledger_observe(plb_ledger_t *self, double time, double max, double mean)
{
    self->mean = mean;
    self->excess = fmax(max - mean, 0.0);
    self->high = self->excess > self->params[PLB_LEDGER_rise] * self->beaten ? self->high + 1 : 0;
    if (self->strategy >= 0 && self->n_times < 2 * PLB_WARM_UP) {
        self->times[self->n_times++] = time;
        if (self->n_times == 2 * PLB_WARM_UP) {
            warmed_up(self);
        }
    }
}

void plb_ledger_balanced(plb_ledger_t *self, int64_t iteration, int32_t strategy,
                         const plb_costs_t *costs)
{
    plb_account_t *account = &self->accounts[costs->goes_on ? self->strategy : strategy];
    const double parts =
        reported(costs->statistics) + reported(costs->strategy) + reported(costs->migration);
    const double sum =
        (costs->given ? costs->whole : fmax(parts, reported(costs->whole))) + costs->felt;
    const double cost = sum > 0.0 || costs->given ? sum
                        : account->n > 0          ? account->cost
                                                  : self->mean;
    self->felt = costs->felt;
    self->last = iteration;
    self->n_times = 0;
    if (costs->goes_on) { /* as if the cost of all slices was known at once */
        self->cost += cost;
        account->cost += account->n == 1 ? cost : 0.5 * cost;
        return;
    }
    self->cost = cost;
    account->cost = halfway(account->cost, self->cost, account->n == 0);
    account->n++;
    self->open = true;
    self->strategy = strategy;
    self->warm_up = NAN;
    self->excess_before = self->excess;
    self->trial = self->off;
    if (self->trial) {
        self->until = iteration + self->pause;
    }
}

/* ---- on, off, trial ------------------------------------------------------------------------- */

static void switch_off(plb_ledger_t *self, int64_t iteration, double pause)
{
    self->off = true;
    self->trial = false;
    self->pause = pause < 1e15 ? (int64_t)ceil(pause) : (int64_t)1e15;
    self->until = iteration + self->pause;
    self->beaten = fmax(self->beaten, self->excess_before);
    self->high = 0;
}

bool plb_ledger_judges(const plb_ledger_t *self, int64_t iteration, bool asked)
{
    return self->open && (self->trial ? iteration >= self->until : asked);
}

void plb_ledger_judge(plb_ledger_t *self, int64_t iteration, double gain)
{
    const double fade = self->params[PLB_LEDGER_fade];
    const bool pays = gain >= self->cost;
    const bool trial = self->trial;
    self->open = false;
    if (trial && !pays) {
        switch_off(self, iteration, 2.0 * (double)self->pause);
        return;
    }
    if (trial) {
        self->off = self->trial = false;
        self->paid = self->gained = self->beaten = 0.0;
        self->judged = 0;
    }
    self->paid = fade * self->paid + self->cost;
    self->gained = fade * self->gained + gain;
    self->judged++;
    if (!pays) {
        self->beaten = fmax(self->beaten, self->excess_before);
    }
    if ((double)self->judged >= self->params[PLB_LEDGER_tries] && self->gained < self->paid) {
        const double *p = self->params, time = p[PLB_LEDGER_share] * self->mean;
        switch_off(self, iteration,
                   fmax(p[PLB_LEDGER_pause], time > 0.0 ? self->cost / time : 0.0));
    }
}

bool plb_ledger_allows(const plb_ledger_t *self, int64_t iteration)
{
    if (!self->off) {
        return true;
    }
    return !(self->trial && self->open) && (iteration >= self->until || self->high >= IN_A_ROW);
}
