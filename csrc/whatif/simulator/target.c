#include "whatif/simulator/internal.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* ---- processor --------------------------------------------------------------------------------- */

/* --- available time --- */

/* Seconds in which the processor was available, from the start of its first period to `time`. */
static double there_until(const processor_t *p, double time)
{
    const double since = time - p->phase, whole = floor(since / p->period);
    const double part = since - whole * p->period;
    return whole * p->on + (part < p->on ? part : p->on);
}

static double work_between(const processor_t *p, double from, double to)
{
    const double seconds = p->period > 0.0 ? there_until(p, to) - there_until(p, from) : to - from;
    return seconds * p->speed;
}

static double done_after(const processor_t *p, double from, double work)
{
    const double seconds = work > 0.0 ? work / p->speed : 0.0;
    if (p->period <= 0.0) {
        return from + seconds;
    }
    const double total = there_until(p, from) + seconds;
    /* if the work exactly fills a number of periods, it ends in the last one of them */
    const double whole = ceil(total / p->on - 1e-9) - 1.0;
    const double to = p->phase + whole * p->period + (total - whole * p->on);
    return to > from ? to : from;
}

/* --- equal shares --- */

/* Bring v, the work that each computing process has got, up to the present time. */
static void settle(const plb_whatif_t *self, processor_t *p)
{
    p->v = p->active.n > 0 ? p->v + work_between(p, p->last, self->now) / p->active.n : 0.0;
    p->last = self->now;
}

static void rekey(plb_whatif_t *self, int32_t number)
{
    const processor_t *p = &self->processor[number];
    const double done = p->active.n > 0
                            ? done_after(p, p->last, (p->active.item[0].key - p->v) * p->active.n)
                            : INFINITY;
    plb_agenda_set(self, owner_processor(self, number), done);
}

void plb_processor_give(plb_whatif_t *self, int32_t rank, double work)
{
    process_t *one = &self->process[rank];
    processor_t *p = &self->processor[one->processor];
    settle(self, p);
    if (one->has_run) { /* the process is at the top of the heap, because its work is done */
        plb_heap_rekey(&p->active, p->v + work);
    } else {
        plb_heap_push(&p->active, (plb_item_t){p->v + work, rank});
    }
    one->has_run = true;
    one->times.busy += work / p->speed;
    rekey(self, one->processor);
}

void plb_processor_leave(plb_whatif_t *self, int32_t rank)
{
    process_t *one = &self->process[rank];
    processor_t *p = &self->processor[one->processor];
    settle(self, p);
    if (one->has_run) {
        plb_heap_pop(&p->active);
    }
    one->has_run = false;
    rekey(self, one->processor);
}

int32_t plb_processor_event(plb_whatif_t *self, int32_t number)
{
    processor_t *p = &self->processor[number];
    const plb_item_t top = p->active.item[0];
    p->v = top.key; /* not a sum of shares, which would have rounding errors */
    p->last = self->now;
    return top.id;
}

static const double MOST = 1e30;  /* the product of two such numbers does not overflow */
static const double LEAST = 1e-9; /* smallest share; smallest seconds of a period */

static double link_of(const plb_whatif_t *self, const double *matrix, int32_t src, int32_t dst)
{
    const plb_target_t *t = &self->target;
    return matrix[(int64_t)t->node[t->place[src]] * t->n_nodes + t->node[t->place[dst]]];
}

double plb_link_alpha(const plb_whatif_t *self, int32_t src, int32_t dst)
{
    return link_of(self, self->target.alpha, src, dst);
}

double plb_link_beta(const plb_whatif_t *self, int32_t src, int32_t dst)
{
    return link_of(self, self->target.beta, src, dst);
}

static int check_network(const plb_target_t *t, plb_err_t *err)
{
    for (int64_t i = 0; i < (int64_t)t->n_nodes * t->n_nodes; i++) {
        PLB_FAIL_IF(!(t->alpha[i] >= 0.0 && t->alpha[i] <= MOST && t->beta[i] >= 0.0 &&
                      t->beta[i] <= MOST),
                    err, PLB_ERR_VALUE,
                    "network from node %d to %d is alpha %g s, beta %g s/byte: expected "
                    "numbers from 0 to 1e30",
                    (int)(i / t->n_nodes), (int)(i % t->n_nodes), t->alpha[i], t->beta[i]);
    }
    return PLB_OK;
}

static int check(int32_t n_ranks, const plb_target_t *t, plb_err_t *err)
{
    for (int32_t p = 0; p < t->n_processors; p++) {
        PLB_FAIL_IF(!(t->speed[p] >= 1.0 / MOST && t->speed[p] <= MOST), err, PLB_ERR_VALUE,
                    "speed of processor %d is %g: expected 1e-30 ... 1e30", p, t->speed[p]);
        PLB_FAIL_IF(t->share != NULL && !(t->share[p] >= LEAST && t->share[p] <= 1.0), err,
                    PLB_ERR_VALUE, "share of processor %d is %g: expected 1e-9 ... 1", p,
                    t->share[p]);
        PLB_FAIL_IF(t->node[p] < 0 || t->node[p] >= t->n_nodes, err, PLB_ERR_RANGE,
                    "node of processor %d is %d: expected 0 ... %d", p, t->node[p],
                    t->n_nodes - 1);
    }
    for (int32_t r = 0; r < n_ranks; r++) {
        PLB_FAIL_IF(t->place[r] < 0 || t->place[r] >= t->n_processors, err, PLB_ERR_RANGE,
                    "placement of rank %d is processor %d: expected 0 ... %d", r, t->place[r],
                    t->n_processors - 1);
    }
    PLB_PASS(plb_check(
        PLB_AMOUNT,
        PLB_FIGURES(PLB_FIGURE(t, period), PLB_FIGURE(t, overhead), PLB_FIGURE(t, eager)), err));
    PLB_FAIL_IF(t->period > 0.0 && t->period < LEAST, err, PLB_ERR_VALUE,
                "period is %g: expected 0, or 1e-9 s or more", t->period);
    return check_network(t, err);
}

/* Copy all arrays into one block, doubles first. */
static int copy(plb_whatif_t *self, const plb_target_t *t, plb_err_t *err)
{
    const size_t p = (size_t)t->n_processors, links = (size_t)t->n_nodes * (size_t)t->n_nodes;
    const size_t ranks = (size_t)self->n_ranks;
    double *d = NULL;
    PLB_PASS_NEW(d, p + 2 * links + (p + ranks + 1) / 2 + 1);
    int32_t *i = (int32_t *)(d + p + 2 * links);
    self->target = *t;
    self->target_arrays = d;
    self->target.speed = memcpy(d, t->speed, p * sizeof *d);
    self->target.alpha = memcpy(d + p, t->alpha, links * sizeof *d);
    self->target.beta = memcpy(d + p + links, t->beta, links * sizeof *d);
    self->target.place = memcpy(i, t->place, ranks * sizeof *i);
    self->target.node = memcpy(i + ranks, t->node, p * sizeof *i);
    self->target.share = NULL; /* from now on, only the copies in the processors are used */
    return PLB_OK;
}

int plb_target_set(plb_whatif_t *self, const plb_target_t *target, plb_err_t *err)
{
    const int ret = check(self->n_ranks, target, err);
    return ret != PLB_OK ? ret : copy(self, target, err);
}
