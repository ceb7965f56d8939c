/* What strategies that place by load have in common: the objects that may migrate, the load of the
 * fixed objects (all others), and the memory limits. */
#pragma once

#include <stdbool.h>

#include "base/sort.h"
#include "place/strategy.h"

typedef struct plb_problem {
    const plb_snapshot_t *in;
    int64_t n;       /* number of objects that may migrate */
    int32_t *object; /* [n] indices of these objects, ascending; NULL: all objects may migrate */
    double *fixed;   /* [p] load of the fixed objects */
    int64_t *room;   /* [p] bytes of memory that the fixed objects leave free; NULL: no limits */
    int64_t least;   /* bytes of the smallest object that may migrate; set only with limits */
} plb_problem_t;

/** Check that the strategy can use the snapshot.  PLB_ERR_VALUE: objects have several loads, or
 * there are both shared blocks and memory limits. */
int plb_problem_check(const plb_snapshot_t *in, plb_err_t *err);

/** Check that the objects have positions (`coords`); PLB_ERR_VALUE if not. */
int plb_problem_needs_coords(const plb_strategy_t *strategy, const plb_snapshot_t *in,
                             plb_err_t *err);

/** Call plb_problem_check, and separate the objects that may migrate from the fixed ones.  Check
 * that memory can suffice for the fixed objects of each rank, for the largest movable object, and
 * for all objects in total.  `self` owns its arrays and borrows `in`. */
int plb_problem_init(plb_problem_t *self, const plb_snapshot_t *in, plb_err_t *err);
void plb_problem_free(plb_problem_t *self);

/** Return PLB_ERR_INFEASIBLE if the fixed objects exceed a memory limit.  left[r]: the bytes that
 * they leave free on rank r; NULL: there are no limits. */
int plb_problem_check_left(const plb_snapshot_t *in, const int64_t *left, plb_err_t *err);

/** Return object i, 0 ... n - 1, of those that may migrate. */
static inline int32_t plb_problem_object(const plb_problem_t *self, int64_t i)
{
    return self->object == NULL ? (int32_t)i : self->object[i];
}

/** Return the seconds of rank r with only its fixed objects. */
static inline double plb_problem_fixed_seconds(const plb_problem_t *self, int32_t r)
{
    return plb_background(self->in, r) + self->fixed[r] / plb_speed(self->in, r);
}

/** Whether all ranks have the same speed and background, and all objects may go to any rank. */
bool plb_problem_all_alike(const plb_problem_t *self);

/** Prepare to sort the loads of the objects that may migrate, the heaviest first.  The ids in *out
 * are indices among these objects.  Free *out by plb_loads_free. */
int plb_problem_by_load(const plb_problem_t *self, plb_loads_t *out, plb_err_t *err);

/** Compute the time of the slowest rank, without messages, with the objects on rank[]. */
int plb_problem_slowest(const plb_problem_t *self, const int32_t *rank, double *seconds,
                        plb_err_t *err);
