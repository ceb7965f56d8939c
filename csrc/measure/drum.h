/* The computing power of each place (node, socket, core) of a machine, as in DRUM (Devine 2005 and
 * 2008, "Heterogeneous architectures").  Work is divided in proportion to this power. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* A tree, parents before their children: parent[0] = -1, parent[v] < v. */
typedef struct plb_drum {
    int64_t n;
    const int32_t *parent;
    const double *cpu;  /* p_n: computing power, 0 ... 1e30, not all 0; used only for leaves */
    const double *comm; /* c_n: communication power, 0 ... 1e30; NaN: unknown */
} plb_drum_t;

/** Compute power[n]: the root has 1, and each place divides its power among its children,
 *    power_n = pp_n (w_comm c_n / sum c_j + w_cpu p_n / sum p_j),  w_cpu = 1 - w_comm.
 *  Here pp_n is the power of n's parent, and j runs over the children of this parent.  The p of an
 *  inner place is the sum over its leaves.  (Devine's slide sums over a whole level, which loses
 *  power if the level has several parents.)  A place with p_n = 0 gets 0, and its c is left out.
 *  If the sum of c is zero or NaN, only p counts, e.g. between the ranks of a node. */
int plb_drum_power(const plb_drum_t *self, double w_comm, double *power, plb_err_t *err);

/** Run a benchmark for `seconds` of wall time; return its number of steps, each a multiplication
 * and an addition of doubles in the first-level cache.  *cpu_seconds: its processor time. */
double plb_drum_benchmark(double seconds, double *cpu_seconds);
