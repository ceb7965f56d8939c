/* The machine: ranks that share cores. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* The time of an iteration on ranks that share cores.
 *
 * A core never idles while a rank waits for one, so n ranks with loads x(i) (seconds of a core)
 * that share c cores need at least max(x(1), ..., x(n), (x(1) + ... + x(n)) / c) seconds (R.
 * McNaughton, Scheduling with deadlines and loss functions, Management Science 6, 1959), and an
 * operating system comes near to that: a rank with much to do keeps its core, and the others share
 * the rest.  (Equal shares of the cores at all times would give 44 ms for loads of 36, 8, 8 and 8
 * ms on two cores; 36 ms is the bound, and 37 to 40 ms were measured.)  The iteration lasts until
 * the last rank of all groups has finished. */

typedef struct plb_sharing {
    int32_t n_ranks;
    int32_t *group;     /* [n_ranks] */
    double *cores;      /* [n_ranks] number of cores of each group */
    int32_t *size;      /* [n_ranks] number of ranks of each group */
    double *sum, *most; /* [n_ranks] scratch memory */
} plb_sharing_t;

/** group[p]: a number 0 ... p - 1; ranks with the same number share cores[r] cores, more than
 * 0.  `self` owns its arrays. */
int plb_sharing_init(plb_sharing_t *self, const int32_t *group, const double *cores, int32_t p,
                     plb_err_t *err);
void plb_sharing_free(plb_sharing_t *self);

/** Return the seconds of an iteration whose ranks need load[n_ranks] seconds of a core. */
double plb_sharing_time(const plb_sharing_t *self, const double *load);

/** Compute load[n_ranks], the seconds of a core, of ranks that computed and waited for a core for
 * end[n_ranks] seconds in all.  If these are more than there is in the time of the longest, all
 * ranks of the group waited for the same fraction of theirs. */
void plb_sharing_loads(const plb_sharing_t *self, const double *end, double *load);
