/* Which cores a rank may use, and who shares them.
 *
 * Ranks that share a core wait for one another; the clock "auto" leaves these waits out, because
 * they say nothing about an object.  A quota (of a control group) that holds for one rank alone is
 * different: the rank is as slow as a rank on a slow processor, wherever its objects come from.
 * The kernel counts the time in which a quota stops a thread as a wait for a core, too.  So the
 * loads of such a rank are elapsed time.
 */
#ifndef PLB_BASE_CORES_H
#define PLB_BASE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PLB_CORES_MOST = 1024 }; /* of a host; without effect where there are more */

/* What a rank knows of its cores; sent between ranks as bytes. */
typedef struct plb_cores {
    uint64_t host;                      /* the kernel that runs the rank */
    uint64_t mask[PLB_CORES_MOST / 64]; /* bit c: it may use core c */
    uint64_t group;                     /* the control group with its tightest quota; 0: none */
    double quota;                       /* cores that the processes of the group may use */
} plb_cores_t;

/* The ranks that share cores most. */
typedef struct plb_crowd {
    int32_t n_ranks;
    double n_cores; /* less than n_ranks: they wait for one another */
    char words[48]; /* then in words, else empty */
} plb_crowd_t;

/** The cores of the calling process. */
void plb_cores_here(plb_cores_t *out);

/** Whether a quota below its cores holds for this rank, and for no other of all[p]. */
bool plb_cores_capped(const plb_cores_t *all, int32_t p, int32_t rank);

/** The ranks of a host, with the same cores or under the same quota, that have the fewest cores
 * per rank. */
int plb_cores_crowd(const plb_cores_t *all, int32_t p, plb_crowd_t *out, plb_err_t *err);

#endif
