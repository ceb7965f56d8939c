#include "place/kit/restarts.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "place/kit/bound.h"
#include "place/kit/home.h"
#include "place/kit/pack.h"
#include "place/kit/pairs.h"

enum {
    CHANGES = 4, /* number of objects that a random change moves */
    MOST = 32,   /* largest number of random changes, i.e. of new starts of the search */
    WORK = 4096, /* largest number of random changes times number of objects */
};

/* Largest relative difference of two sums of the same numbers in different orders. */
static const double ROUNDING = 1e-12;

/* GreedyLB's placement is worth its migrations only if the old maximum is more than this factor
 * times the new one. */
static const double WORTH = 1.005;

typedef struct search {
    const plb_problem_t *problem;
    const plb_opts_t *opts;
    double limit;         /* seconds that no rank should exceed */
    int32_t *best, *rank; /* [n_objects] the best placement so far; the one that is changed */
    double max;           /* seconds of the slowest rank under `best` */
} search_t;

static bool is_done(const search_t *self)
{
    return self->max <= self->limit * (1.0 + ROUNDING);
}

/* Search from self->rank; keep the result if `factor` times its maximum is below the old one. */
static int search_from(search_t *self, double factor, plb_err_t *err)
{
    const double useless = factor > 1.0 ? fmax(self->max / factor, self->limit) : INFINITY;
    plb_ranks_t ranks;
    int ret = plb_ranks_init(&ranks, self->problem, self->rank, err);
    PLB_THEN(plb_pairs(&ranks, &(plb_pairs_aim_t){self->limit, useless, INT64_MAX}, err));
    const double max = ret == PLB_OK ? plb_ranks_max(&ranks) : INFINITY;
    plb_ranks_free(&ranks);
    if (max * factor * (1.0 + ROUNDING) < self->max) {
        self->max = max;
        memcpy(self->best, self->rank, (size_t)self->problem->in->n_objects * sizeof *self->rank);
    }
    return ret;
}

/* Search from the placement in self->rank, unless it was not found: `found` is the code of the
 * function that looked for it. */
static int search_from_new(search_t *self, int found, plb_err_t *err)
{
    if (found != PLB_OK) { /* the memory limits may allow no placement */
        return found == PLB_ERR_INFEASIBLE ? PLB_OK : found;
    }
    PLB_PASS(plb_home_relabel(self->problem, self->rank, err));
    return search_from(self, WORTH, err);
}

static int from_greedy(search_t *self, plb_err_t *err)
{
    const int found = plb_strategy_greedy.run(&plb_strategy_greedy, self->problem->in, self->opts,
                                              self->rank, err);
    return search_from_new(self, found, err);
}

static int from_packed(search_t *self, plb_err_t *err)
{
    return search_from_new(self, plb_pack(self->problem, self->rank, err), err);
}

/* Set rank[] to the best placement, and move a few objects of it to random ranks. */
static void change(search_t *self, plb_rng_t *rng)
{
    const plb_problem_t *problem = self->problem;
    const uint64_t p = (uint64_t)problem->in->n_ranks;
    memcpy(self->rank, self->best, (size_t)problem->in->n_objects * sizeof *self->rank);
    for (int k = 0; k < CHANGES; k++) {
        const int64_t which = (int64_t)plb_rng_below(rng, (uint64_t)problem->n);
        self->rank[plb_problem_object(problem, which)] = (int32_t)plb_rng_below(rng, p);
    }
}

static int from_changes(search_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_rng_t rng;
    plb_rng_init(&rng, self->opts->seed);
    const int64_t n = self->problem->n, most = n * MOST < WORK ? MOST : WORK / n;
    for (int64_t k = 0; ret == PLB_OK && !is_done(self) && k < most; k++) {
        change(self, &rng);
        ret = search_from(self, 1.0, err);
    }
    return ret;
}

int plb_restarts(const plb_problem_t *problem, double limit, int32_t *rank, plb_refined_t *reached,
                 const plb_opts_t *opts, plb_err_t *err)
{
    int ret = PLB_OK;
    double crowd;
    search_t self = {problem, opts, limit, rank, NULL, reached->after};
    const size_t n = (size_t)problem->in->n_objects;
    PLB_NEW(self.rank, n);
    memcpy(self.rank, rank, n * sizeof *rank);
    if (!reached->exchanged) {
        PLB_TRY(search_from(&self, 1.0, err));
    }
    if (!is_done(&self)) {
        PLB_TRY(plb_bound_crowd(problem, &crowd, err));
        self.limit = fmax(limit, crowd);
    }
    if (self.max > WORTH * self.limit) {
        PLB_TRY(from_greedy(&self, err));
    }
    if (problem->room != NULL && self.max > WORTH * self.limit) {
        PLB_TRY(from_packed(&self, err));
    } else if (problem->room == NULL && problem->n > 0) {
        PLB_TRY(from_changes(&self, err));
    }
    reached->after = self.max;
out:
    plb_free(self.rank);
    return ret;
}
