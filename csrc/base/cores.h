/* Which cores a rank may use, and which ranks share them.
 *
 * Ranks that share a core wait for one another.  The clock "auto" leaves these waits out, because
 * they do not depend on the object that runs.  A quota (of a Linux control group) that limits only
 * one rank is different: it slows every object of this rank, like a slow processor.  The kernel
 * counts this delay as a wait for a core, too.  So on such a rank, loads are elapsed times. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Largest number of cores of a host; if a host has more, the cores of its ranks are unknown. */
enum { PLB_CORES_MOST = 1024 };

/* What a rank knows of its cores; sent between ranks as bytes. */
typedef struct plb_cores {
    uint64_t host;                      /* a hash that identifies the rank's kernel */
    uint64_t mask[PLB_CORES_MOST / 64]; /* bit c: the rank may use core c */
    uint64_t group; /* the control group whose quota limits the rank most; 0: none */
    double quota;   /* number of cores that all processes of the group together may use */
} plb_cores_t;

/* The group of ranks with the fewest cores per rank. */
typedef struct plb_crowd {
    int32_t n_ranks;
    double n_cores;
    char words[48]; /* e.g. "4 ranks share 2 cores"; empty: no rank has to wait, or unknown */
} plb_crowd_t;

/** Find out which cores the calling process may use. */
void plb_cores_here(plb_cores_t *out);

/** Whether a quota limits `rank` to less than its cores, and limits no other rank of all[p]. */
bool plb_cores_capped(const plb_cores_t *all, int32_t p, int32_t rank);

/** Divide the ranks into groups that share cores: ranks of one host whose sets of cores overlap,
 * or that are under the same quota.  group[p]: the lowest rank of each rank's group; cores[p]: the
 * number of cores of this group; if it is unknown, one for each rank.  A rank with a quota of its
 * own uses only a part of a core at a time: four such ranks with half a core each have as much of
 * two cores as they can use, and these count as four. */
int plb_cores_groups(const plb_cores_t *all, int32_t p, int32_t *group, double *cores,
                     plb_err_t *err);

/** Find the group with the fewest cores per rank. */
int plb_cores_crowd(const plb_cores_t *all, int32_t p, plb_crowd_t *out, plb_err_t *err);
