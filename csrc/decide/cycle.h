/* Estimates the seconds per iteration that a placement loses until the next LB step, if the loads
 * go on changing as they do now.  With these estimates, the decider chooses for how many
 * iterations ahead a strategy places.  A cycle is the time from one LB step to the next. */
#pragma once

#include "model/cost.h"

/* In placement k, the strategy places for the loads expected in plb_cycle_aheads[k] iterations. */
enum { PLB_CYCLE_AHEADS = 5 };
extern const int plb_cycle_aheads[PLB_CYCLE_AHEADS];

typedef struct plb_cycle_costs {
    const plb_snapshot_t *now; /* the present loads */
    const double *drift;       /* [n_objects] growth of the loads, seconds per iteration */
    double step;               /* seconds of an LB step in which nothing moves */
    double per_byte;           /* seconds per byte that leaves a rank */
    double left;               /* iterations until the end of the run; at least 1 */
    double belief;             /* factor on drift and velocity, 0 ... 1; 0: constant loads */
    double velocity; /* number of objects by which the pattern of the loads moves in an iteration,
                        in the order of the objects' indices */
    double jumps;    /* probability per iteration that the pattern jumps to another place */
    plb_network_t network;
} plb_cycle_costs_t;

/** Compute load[n_objects], the loads expected in t iterations. */
void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load);

/** Set the velocity, fitted to the drift: a moving pattern changes each load by -velocity * (slope
 * of the loads at the object).  The velocity is 0 if this explains too little of the drift. */
void plb_cycle_transport(plb_cycle_costs_t *self);

/** Set `belief`: the growth of the ranks' waiting in the last iteration (`grown`, seconds),
 * divided by the growth that the drift predicts. */
int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err);

/** Compute *bytes, the most that leave a rank if objects move to rank[]; rank NULL: all leave. */
int plb_cycle_bytes(const plb_snapshot_t *now, const int32_t *rank, double *bytes, plb_err_t *err);

/** Compute *loss, the average seconds per iteration that the placement rank[n_objects] loses in a
 * cycle of the best length: by the LB step, its migrations, messages, waiting for the slowest
 * rank, and waiting after possible jumps. */
int plb_cycle_loss(const plb_cycle_costs_t *self, const int32_t *rank, double *loss,
                   plb_err_t *err);
