/* The beginning of an advisor: makes the settings final, and makes the decider. */
#include <math.h>

#include "base/mem.h"
#include "decide/advisor.h"
#include "lib/internal.h"

/* ---- sharing ------------------------------------------------------------------------------- */

typedef struct share {
    plb_cores_t cores;
    int64_t lag;
} share_t;

typedef struct answer {
    plb_crowd_t crowd;
    int64_t lag;
} answer_t;

static int compare(const share_t *all, int32_t p, answer_t *out, bool *capped, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_cores_t *cores = NULL;
    PLB_NEW(cores, p);
    for (int32_t r = 0; r < p; r++) {
        cores[r] = all[r].cores;
        out->lag = all[r].lag > out->lag ? all[r].lag : out->lag;
    }
    for (int32_t r = 0; r < p; r++) {
        capped[r] = plb_cores_capped(cores, p, r);
    }
    ret = plb_cores_crowd(cores, p, &out->crowd, err);
out:
    plb_free(cores);
    return ret;
}

/* Find the group of ranks with the fewest cores per rank.  *capped: whether a quota of processor
 * time limits this rank and no other.  *lag becomes the largest lag of all ranks: then all ranks
 * have the same number of reductions under way, even if they were given different lags by mistake.
 * Collective; an error is raised on all ranks. */
static int share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, int64_t *lag,
                       plb_err_t *err)
{
    char *all = NULL;
    share_t mine = {.lag = *lag};
    answer_t answer = {.lag = 0};
    plb_cores_here(&mine.cores);
    bool *of_rank = plb_calloc((size_t)ranks->size, sizeof *of_rank);
    int ret = of_rank == NULL ? PLB_NO_MEMORY(of_rank, ranks->size) : PLB_OK;
    PLB_TRY(ranks->gather(ranks, &mine, ret == PLB_OK ? (int64_t)sizeof mine : ret, &all, err));
    if (ranks->rank == 0) {
        ret = compare((const share_t *)(const void *)all, ranks->size, &answer, of_rank, err);
    }
    PLB_TRY(ranks->agree(ranks, ret, err));
    PLB_TRY(ranks->bcast(ranks, &answer, sizeof answer, err));
    PLB_TRY(ranks->bcast(ranks, of_rank, ranks->size * (int64_t)sizeof *of_rank, err));
    *crowd = answer.crowd;
    *lag = answer.lag;
    *capped = of_rank[ranks->rank];
out:
    PLB_FREE(of_rank, all);
    return ret;
}

plb_lib_advisor_t *plb_lib_advisor_of(const pylb_advisor *lb, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)lb, PLB_HANDLE_ADVISOR, err);
}

static int make_decider(plb_lib_advisor_t *self, plb_err_t *err)
{
    PLB_PASS(plb_lib_decider_init(&self->decider, &self->trigger, &self->settings,
                                  self->with_cells, self->ranks->size, err));
    self->asks = plb_registered_is_own(self->settings.trigger);
    plb_advisor_init(&self->core, &self->decider, self->with_cells);
    self->core.untold = plb_lib_measures_work(self);
    return PLB_OK;
}

/* "auto" is the clock "mpi" where that works.  On one rank it needs no call of MPI. */
static int choose_clock(plb_lib_advisor_t *self, plb_err_t *err)
{
    const plb_mpi_clock_t mpi = plb_mpi_clock();
    self->clock = self->settings.clock;
    PLB_FAIL_IF(self->clock == PLB_CLOCK_MPI && mpi == PLB_NO_PMPI, err, PLB_ERR_MISSING,
                "clock is \"mpi\", but libpylb_pmpi is not loaded: start the program by `pylb run "
                "-- mpiexec ...`, or link it with pylb_pmpi");
    PLB_FAIL_IF(self->clock == PLB_CLOCK_MPI && mpi == PLB_PMPI_BLIND && self->ranks->size > 1,
                err, PLB_ERR_STATE,
                "clock is \"mpi\", but libpylb_pmpi sees no call of MPI: expected a program that "
                "loads MPI as a shared library, after libpylb_pmpi, and no other tool before it");
    if (self->clock == PLB_CLOCK_AUTO && mpi == PLB_PMPI_SEES) {
        self->clock = PLB_CLOCK_MPI;
    }
    return PLB_OK;
}

int plb_lib_advisor_ready(plb_lib_advisor_t *self, plb_err_t *err)
{
    if (self->ready) {
        return PLB_OK;
    }
    PLB_PASS(plb_settings_environment(&self->settings, err));
    PLB_PASS(choose_clock(self, err));
    self->ready = true;
    return PLB_OK;
}

/* What needs no other rank. */
static int prepare(plb_lib_advisor_t *self, plb_err_t *err)
{
    PLB_PASS(plb_lib_advisor_ready(self, err));
    PLB_PASS(plb_settings_close(&self->settings, err));
    PLB_PASS(make_decider(self, err));
    self->fingerprint = plb_settings_fingerprint(&self->settings) ^ (self->with_cells ? 1 : 0) ^
                        (plb_lib_measures_work(self) ? 2 : 0);
    return PLB_OK;
}

/* The collective part runs even after an error, so that no other rank waits for this one. */
int plb_lib_advisor_begin(plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    self->begun = true;
    self->with_cells = with_cells;
    const int ret = prepare(self, err);
    int64_t lag = self->settings.lag;
    bool capped = false;
    PLB_PASS(share_cores(self->ranks, &self->crowd, &capped, &lag, err));
    if (capped && (self->clock == PLB_CLOCK_AUTO || self->clock == PLB_CLOCK_MPI)) {
        self->clock = self->clock == PLB_CLOCK_AUTO ? PLB_CLOCK_WALL : PLB_CLOCK_MPI_WALL;
    }
    if (plb_lib_loads_wait(self) && self->crowd.n_ranks == self->ranks->size) {
        self->core.share = fmin(self->crowd.n_cores / self->crowd.n_ranks, 1.0);
    }
    PLB_PASS(self->ranks->reserve(self->ranks, (int)lag + 2, err));
    PLB_PASS(plb_steps_init(&self->steps, self->ranks->reduction, (int32_t)lag, err));
    return ret;
}
