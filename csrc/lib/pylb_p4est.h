/* pylb for codes on p4est: p4est says where quadrants go, pylb says when.
 *
 *     pylb_advisor_create_mpi(p4est->mpicomm, &lb);
 *     for (int step = 0; step < n; step++) {
 *         adapt(p4est);
 *         pylb_start(lb);
 *         compute(p4est);
 *         pylb_stop(lb);
 *         pylb_p4est_advise(lb, p4est, weight, NULL);
 *     }
 *     pylb_advisor_close(&lb);
 *
 * Include <mpi.h> before this header, and <p4est_to_p8est.h> for p8est.  Link with libpylb_mpi and
 * with p4est; this header needs no library of its own. */
#ifndef PYLB_P4EST_H
#define PYLB_P4EST_H

#ifdef P4_TO_P8
#include <p8est_extended.h>
#else
#include <p4est_extended.h>
#endif

#include "pylb.h"

/** End a step, and partition the forest if that pays now.  Collective; call it instead of
 * calling p4est_partition_ext at fixed intervals.  The data of the quadrants (p4est->data_size)
 * move with them, and families stay together, so that they can be coarsened.
 * weight: a function for p4est_partition_ext, which returns e.g. the nanoseconds that the
 * quadrant took in this step; NULL: all quadrants are equal.  *shipped (or NULL): number of
 * quadrants that have changed their rank; if it is not 0, build ghosts and other arrays again.
 * Move arrays beside the forest by p4est_transfer_fixed, and report its seconds by
 * pylb_rebalanced.  Errors: see pylb_advise. */
static inline int pylb_p4est_advise(pylb_advisor *lb, p4est_t *p4est, p4est_weight_t weight,
                                    p4est_gloidx_t *shipped)
{
    p4est_gloidx_t n = 0;
    int rebalance, code = pylb_advise(lb, &rebalance);
    if (code == PYLB_OK && rebalance) {
        code = pylb_rebalance_begin(lb);
        n = p4est_partition_ext(p4est, 1, weight);
        code = code == PYLB_OK ? pylb_rebalance_end(lb) : code;
    }
    if (shipped != NULL) {
        *shipped = n;
    }
    return code;
}

#endif
