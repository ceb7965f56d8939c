#include "place/kit/fewer.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "place/kit/offers.h"
#include "place/kit/pack.h"
#include "place/kit/refine.h"

/* A refinement replaces rank[] if its slowest rank takes at most 1 + NEAR times as long, and if it
 * has less than 1 / FEWER of the migrations.  The refinement aims at 1 + NEAR / 2. */
static const double NEAR = 2e-3;
enum { FEWER = 2 };

/* Migrations are needless if there are more than this multiple of the unavoidable ones. */
enum { NEEDLESS = 2 };

/* Largest relative difference of two sums of the same numbers in different orders. */
static const double ROUNDING = 1e-12;

static int64_t migrations(const plb_snapshot_t *in, const int32_t *rank)
{
    int64_t n = 0;
    for (int64_t i = 0; i < in->n_objects; i++) {
        n += rank[i] != in->rank[i];
    }
    return n;
}

/* Mark the ranks above their allowed load.  Return how many objects must leave these ranks if all
 * objects are as heavy as the heaviest one: a lower bound. */
static int64_t find_donors(const plb_ranks_t *ranks, uint8_t *gives)
{
    int64_t n = 0;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double excess = -plb_ranks_gap(ranks, r) * (1.0 - ROUNDING);
        gives[r] = excess > 0.0;
        if (excess > 0.0 && ranks->heaviest > 0.0) {
            n += (int64_t)fmin(ceil(excess / ranks->heaviest), ranks->on[r]);
        }
    }
    return n;
}

/* Count the objects that must leave the ranks above their allowed load, up to about `enough`. */
static int count_leaving(const plb_ranks_t *ranks, const uint8_t *gives, int64_t enough,
                         int64_t *out, plb_err_t *err)
{
    plb_offers_t offers = {0};
    const int ret = plb_offers_init(&offers, ranks, gives, INFINITY, err);
    *out = 0;
    for (int32_t r = 0; ret == PLB_OK && r < ranks->in->n_ranks && *out < enough; r++) {
        double load = ranks->load[r];
        if (gives[r]) {
            plb_offers_sort(&offers, r);
        }
        for (int64_t k = offers.end[r]; load > ranks->allowed[r] && k-- > offers.start[r];) {
            load -= offers.item[k].key;
            ++*out;
        }
    }
    plb_offers_free(&offers);
    return ret;
}

int plb_has_needless(const plb_problem_t *problem, const int32_t *rank, double max, bool *out,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = migrations(problem->in, rank), enough = n / NEEDLESS + 1;
    int64_t leaving = 0;
    plb_ranks_t ranks = {0};
    int32_t *present = NULL;
    uint8_t *gives = NULL;
    PLB_NEW(present, problem->in->n_objects);
    PLB_NEW(gives, problem->in->n_ranks);
    PLB_TRY(plb_pack_present(problem, present, err));
    PLB_TRY(plb_ranks_init(&ranks, problem, present, err));
    plb_ranks_allow(&ranks, max);
    leaving = find_donors(&ranks, gives);
    if (leaving < enough) {
        PLB_TRY(count_leaving(&ranks, gives, enough, &leaving, err));
    }
    *out = n > NEEDLESS * leaving;
out:
    plb_ranks_free(&ranks);
    PLB_FREE(present, gives);
    return ret;
}

int plb_fewer_take(const plb_problem_t *problem, int32_t *other, double longest, int64_t divisor,
                   int32_t *rank, double *max, bool *taken, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    plb_ranks_t ranks;
    int ret = plb_ranks_init(&ranks, problem, other, err);
    *taken = ret == PLB_OK && plb_ranks_max(&ranks) <= longest &&
             migrations(in, other) <= (migrations(in, rank) - 1) / divisor;
    if (*taken) {
        *max = plb_ranks_max(&ranks);
        memcpy(rank, other, (size_t)in->n_objects * sizeof *rank);
    }
    plb_ranks_free(&ranks);
    return ret;
}

typedef int (*refine_fn)(const plb_problem_t *problem, double limit, int64_t most, int32_t *rank,
                         plb_err_t *err);

static int by_load(const plb_problem_t *problem, double limit, int64_t most, int32_t *rank,
                   plb_err_t *err)
{
    return plb_refine_to(problem, limit, most, rank, NULL, err);
}

/* Refine as in CommAwareRefineLB: its exchanges of two objects often suffice to meet `limit`. */
static int by_exchanges(const plb_problem_t *problem, double limit, int64_t most, int32_t *rank,
                        plb_err_t *err)
{
    plb_ranks_t ranks;
    (void)most;
    int ret = plb_ranks_init(&ranks, problem, rank, err);
    const double average = ret == PLB_OK ? plb_ranks_average(&ranks) : 1.0;
    plb_ranks_free(&ranks);
    return PLB_THEN(plb_refine_comm(problem, limit / average, true, NULL, rank, err));
}

static int try_refining(const plb_problem_t *problem, refine_fn refine, int64_t most,
                        int32_t *rank, double *max, bool *done, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *other = NULL;
    PLB_NEW(other, problem->in->n_objects);
    PLB_TRY(plb_pack_present(problem, other, err));
    PLB_TRY(refine(problem, (1.0 + 0.5 * NEAR) * *max, most, other, err));
    ret = plb_fewer_take(problem, other, (1.0 + NEAR) * *max, FEWER, rank, max, done, err);
out:
    plb_free(other);
    return ret;
}

int plb_fewer(const plb_problem_t *problem, int32_t *rank, double *max, plb_err_t *err)
{
    const int64_t many = migrations(problem->in, rank), most = (many - 1) / FEWER;
    bool done = false, needless = false;
    if (many == 0) {
        return PLB_OK;
    }
    PLB_PASS(try_refining(problem, by_load, most, rank, max, &done, err));
    if (!done && 2 * many > problem->n) { /* most objects move, so they were placed from scratch */
        PLB_PASS(plb_has_needless(problem, rank, *max, &needless, err));
    }
    return needless ? try_refining(problem, by_exchanges, most, rank, max, &done, err) : PLB_OK;
}
