/* Power of the places of a machine: DRUM (Devine 2005/2008, "Heterogeneous architectures"). */
#ifndef PLB_MEASURE_DRUM_H
#define PLB_MEASURE_DRUM_H

#include <stdint.h>

#include "base/err.h"

/* A tree, parents before their children: parent[0] = -1, parent[v] < v. */
typedef struct plb_drum {
    int64_t n;
    const int32_t *parent;
    const double *cpu;  /* p_n of the leaves, 0 or more, with a sum above 0; others are ignored */
    const double *comm; /* c_n, 0 or more; NaN: all of that parent count alike in this */
} plb_drum_t;

/** power[n]: the root has 1, and hands it on to its children,
 *    power_n = pp_n (w_comm c_n / sum c_j + w_cpu p_n / sum p_j),  w_cpu = 1 - w_comm.
 *  Differs: the slide sums over all of a level, which loses power where a level has several
 *  parents; here j runs over the children of n's parent.  Where a sum of c is zero or unknown the
 *  processing power alone counts, and so it does between the ranks of a node, where comm is NaN.
 *  What cannot compute (p_n = 0) gets nothing. */
int plb_drum_power(const plb_drum_t *self, double w_comm, double *power, plb_err_t *err);

/** Work for so long, by the wall clock: the steps done, and the seconds that this thread was
 *  running.  A step is a multiplication and an addition of doubles, in the first-level cache. */
double plb_drum_benchmark(double seconds, double *cpu_seconds);

#endif
