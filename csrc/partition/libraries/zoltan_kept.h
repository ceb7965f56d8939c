/* Zoltan structures that are kept with a communicator and reused by calls with the same
 * parameters, because creating one duplicates a communicator. */
#pragma once

#include <stdatomic.h>

#include "partition/libraries/zoltan.h"

typedef struct plb_zoltan_kept {
    struct Zoltan_Struct *zz;
    char *params;     /* as one text; NULL: none are set */
    atomic_bool busy; /* a call uses the structure */
    bool stays;       /* kept with its communicator; false: plb_zoltan_leave destroys it */
} plb_zoltan_kept_t;

/** Allocate what plb_zoltan_take needs, so that it cannot fail for lack of memory on one rank
 * while others wait.  *fresh: memory for a new structure, to be freed with plb_free.  Local. */
int plb_zoltan_prepare(MPI_Comm comm, plb_zoltan_kept_t **fresh, plb_err_t *err);

/** Take a structure with these parameters, or make a new one in *fresh, whose `params` are NULL;
 * then *fresh becomes NULL.  The caller must give the structure back by plb_zoltan_leave.  spare:
 * bit i is set if structure i is unused on every rank (plb_zoltan_spare); ignored on a single
 * rank. Collective; one call at a time. */
int plb_zoltan_take(MPI_Comm comm, int64_t spare, const char *params, plb_zoltan_kept_t **fresh,
                    plb_zoltan_kept_t **out, plb_err_t *err);
