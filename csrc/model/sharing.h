/* The time of an iteration on ranks that share cores.
 *
 * Ranks that share c cores compute under egalitarian processor sharing: while m of them compute,
 * each has min(1, c / m) of a core; a rank that has finished waits without using a core.  If the
 * loads of a group of n ranks are x1 <= x2 <= ... <= xn (seconds of a core of one's own), then
 * rank i finishes at
 *     t(i) = t(i - 1) + (x(i) - x(i - 1)) * max(1, (n - i + 1) / c),     t(0) = x(0) = 0,
 * and the iteration lasts until the last rank of all groups has finished.  With a core for each
 * rank, that is the largest load.  L. Kleinrock, Queueing Systems, vol. 2 (1976), chapter 4. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/item.h"

typedef struct plb_sharing {
    int32_t n_groups;
    int32_t *member; /* [n_ranks] the ranks, group by group */
    int32_t *start;  /* [n_groups + 1] where each group begins in `member` */
    double *cores;   /* [n_groups] */
    plb_item_t *spare; /* [n_ranks] scratch memory */
} plb_sharing_t;

/** group[p]: a number 0 ... p - 1; ranks with the same number share cores[r] cores, at least 1 per
 * group.  `self` owns its arrays. */
int plb_sharing_init(plb_sharing_t *self, const int32_t *group, const double *cores, int32_t p,
                     plb_err_t *err);
void plb_sharing_free(plb_sharing_t *self);

/** Return the seconds of an iteration whose ranks need load[n_ranks] seconds of a core. */
double plb_sharing_time(const plb_sharing_t *self, const double *load);

/** Compute load[n_ranks], the seconds of a core, of ranks that all began together and finished
 * after end[n_ranks] seconds: the inverse of plb_sharing_time. */
void plb_sharing_loads(const plb_sharing_t *self, const double *end, double *load);
