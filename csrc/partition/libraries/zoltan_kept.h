/* Structures of Zoltan that stay with a communicator, as each costs one of its own to make: a call
 * takes one that a former call with the same parameters has left.
 */
#ifndef PLB_PARTITION_LIBRARIES_ZOLTAN_KEPT_H
#define PLB_PARTITION_LIBRARIES_ZOLTAN_KEPT_H

#include <stdatomic.h>

#include "partition/libraries/zoltan.h"

typedef struct plb_zoltan_kept {
    struct Zoltan_Struct *zz;
    char *asks;       /* its parameters, as one text; NULL: none are set */
    atomic_bool busy; /* somebody has it */
    bool stays;       /* with its communicator */
} plb_zoltan_kept_t;

/** One with these parameters, or a new one without any (asks NULL), for the caller to leave.  Bits
 * of `spare` are places that every rank has said to be free (plb_zoltan_spare); with one rank they
 * are known.  Collective, one at a time in a process. */
int plb_zoltan_take(MPI_Comm comm, int64_t spare, const char *asks, plb_zoltan_kept_t **out,
                    plb_err_t *err);

#endif
