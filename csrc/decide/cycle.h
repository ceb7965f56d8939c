/* Estimates the seconds that a placement loses until the next LB step (a cycle), if the loads go
 * on changing as they do now.  So a strategy can place for the loads expected some iterations
 * ahead.
 */
#ifndef PLB_DECIDE_CYCLE_H
#define PLB_DECIDE_CYCLE_H

#include "model/cost.h"

/* The strategy is tried with the loads expected so many iterations ahead. */
enum { PLB_CYCLE_AHEADS = 5 };
extern const int plb_cycle_aheads[PLB_CYCLE_AHEADS];

typedef struct plb_cycle_costs {
    const plb_snapshot_t *now; /* the present loads */
    const double *drift;       /* [n_objects] seconds per iteration */
    double step;               /* seconds of an LB step without moves */
    double per_byte;           /* seconds per byte that leaves a rank */
    double left;               /* iterations until the end of the run; at least 1 */
    double belief;             /* 0 ... 1: drift and velocity are multiplied by it */
    double velocity;       /* objects per iteration by which the pattern of the loads moves along
                              the objects; only the rest of the drift stays with its object */
    plb_network_t network; /* cost of messages; zero: they are free */
} plb_cycle_costs_t;

/** The loads expected in t iterations, load[n_objects]. */
void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load);

/** Set the velocity, by least squares: a moving pattern changes each load by -velocity * slope,
 * where the slope is that of the loads around the object.  0 if this explains too little of the
 * drift. */
void plb_cycle_transport(plb_cycle_costs_t *self);

/** Set the belief in the drift, within 0 ... 1.  It is a quotient: `grown`, the seconds by
 *  which the ranks' waiting has grown in the last iteration, over the growth that the drift
 *  predicts. */
int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err);

/** Compute the largest number of bytes that leave a rank if the objects move to rank[n_objects];
 *  NULL: if all objects leave their ranks. */
int plb_cycle_bytes(const plb_snapshot_t *now, const int32_t *rank, double *bytes, plb_err_t *err);

/** Compute *loss, the average loss per iteration in seconds, in a cycle of the best length.  Lost
 *  are the LB step, its migrations, the messages, and the waiting for the slowest rank. */
int plb_cycle_loss(const plb_cycle_costs_t *self, const int32_t *rank, double *loss,
                   plb_err_t *err);

#endif
