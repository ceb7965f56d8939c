/* What a placement costs in the iterations until the next LB step, if loads go on changing as they
 * do, and for which loads it is made: for those expected some iterations ahead. */
#ifndef PLB_DECIDE_CYCLE_H
#define PLB_DECIDE_CYCLE_H

#include "model/snapshot.h"

/* Iterations ahead whose loads a placement may be made for. */
enum { PLB_CYCLE_AHEADS = 5 };
extern const int plb_cycle_aheads[PLB_CYCLE_AHEADS];

typedef struct plb_cycle_costs {
    const plb_snapshot_t *now; /* the present loads */
    const double *drift;       /* [n_objects] seconds per iteration */
    double step;               /* seconds of an LB step without moves */
    double per_byte;           /* seconds per byte that leaves a rank */
    double left;               /* iterations until the end of the run; at least 1 */
    double belief;             /* 0 ... 1: factor on the drift */
} plb_cycle_costs_t;

/** The loads expected in t iterations, load[n_objects]. */
void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load);

/** Set the belief: a drift is real as far as the waiting of the ranks has grown as it says, by
 * `grown` seconds in the last iteration; after a jump it has not. */
int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err);

/** The most bytes that leave a rank for rank[n_objects]. */
int plb_cycle_bytes(const plb_snapshot_t *now, const int32_t *rank, double *bytes, plb_err_t *err);

/** The lowest average loss per iteration of all lengths of the cycle: the LB step, its migrations,
 * and the waiting for the slowest rank. */
int plb_cycle_loss(const plb_cycle_costs_t *self, const int32_t *rank, double *loss,
                   plb_err_t *err);

#endif
