#include "place/kit/home.h"

#include "base/mem.h"
#include "place/kit/pack.h"
#include "place/kit/ranks.h"
#include "place/kit/relabel.h"

/* A gain below this fraction of the slowest rank's time is not worth a migration. */
static const double WORTH = 1e-6;

int plb_home_unless_gained(const plb_problem_t *problem, double before, double after,
                           int32_t *rank, plb_err_t *err)
{
    return after < before * (1.0 - WORTH) ? PLB_OK : plb_pack_present(problem, rank, err);
}

static int list_moved(const plb_problem_t *problem, const int32_t *rank, plb_loads_t *out,
                      int32_t **object, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n = 0;
    double *load = NULL;
    PLB_NEW_EACH(problem->n, *object, load);
    for (int64_t k = 0; k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, k);
        if (rank[i] != problem->in->rank[i]) {
            load[n] = problem->in->load[i];
            (*object)[n++] = i;
        }
    }
    ret = plb_loads_sorted(out, load, n, PLB_ASCENDING, err);
out:
    plb_free(load);
    return ret;
}

int plb_home_return(const plb_problem_t *problem, double max, int32_t *rank, plb_err_t *err)
{
    plb_ranks_t ranks;
    plb_loads_t moved = {0};
    int32_t *object = NULL;
    int ret = plb_ranks_init(&ranks, problem, rank, err);
    PLB_THEN(list_moved(problem, rank, &moved, &object, err));
    for (int64_t k = 0; ret == PLB_OK && k < moved.n; k++) {
        const int32_t i = object[moved.item[k].id], home = problem->in->rank[i];
        const double load = ranks.load[home] + moved.item[k].key;
        const double seconds = plb_background(ranks.in, home) + load / plb_speed(ranks.in, home);
        if (seconds <= max && plb_ranks_has_room(&ranks, home, i)) {
            plb_ranks_move(&ranks, i, home);
        }
    }
    plb_free(object);
    plb_loads_free(&moved);
    plb_ranks_free(&ranks);
    return ret;
}

int plb_home_relabel(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = problem->in;
    int32_t *name = NULL;
    if (!plb_problem_all_alike(problem)) {
        return PLB_OK;
    }
    PLB_NEW(name, in->n_ranks);
    ret = plb_relabel(in->n_objects, in->rank, rank, NULL, in->n_ranks, NULL, name, err);
    for (int64_t i = 0; ret == PLB_OK && i < in->n_objects; i++) {
        rank[i] = name[rank[i]];
    }
out:
    plb_free(name);
    return ret;
}
