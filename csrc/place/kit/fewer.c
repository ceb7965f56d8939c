#include "place/kit/fewer.h"

#include <string.h>

#include "base/mem.h"
#include "place/kit/refine.h"

/* A refinement replaces rank[] if its slowest rank takes at most 1 + NEAR times as long, and if it
 * has less than 1 / FEWER of the migrations.  The refinement aims at 1 + NEAR / 2. */
static const double NEAR = 2e-3;
enum { FEWER = 2 };

static int64_t migrations(const plb_snapshot_t *in, const int32_t *rank)
{
    int64_t n = 0;
    for (int64_t i = 0; i < in->n_objects; i++) {
        n += rank[i] != in->rank[i];
    }
    return n;
}

int plb_fewer(const plb_problem_t *problem, int32_t *rank, double *max, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_refined_t reached;
    int32_t *other = NULL;
    const int64_t many = migrations(problem->in, rank), most = (many - 1) / FEWER;
    if (many == 0) {
        return PLB_OK;
    }
    PLB_NEW(other, problem->in->n_objects);
    PLB_TRY(plb_problem_present(problem, other, err));
    PLB_TRY(plb_refine_to(problem, (1.0 + 0.5 * NEAR) * *max, most, other, &reached, err));
    if (reached.after <= (1.0 + NEAR) * *max && migrations(problem->in, other) <= most) {
        *max = reached.after;
        memcpy(rank, other, (size_t)problem->in->n_objects * sizeof *rank);
    }
out:
    plb_free(other);
    return ret;
}
