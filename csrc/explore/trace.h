/* A recorded run: the phases of a program one behind the other, as a struct of arrays.
 *
 * Entities are the objects of the whole run, numbered once; a task is one entity in one phase.
 * Nothing here is owned.  NULL means "as usual", as in a snapshot. */
#ifndef PLB_EXPLORE_TRACE_H
#define PLB_EXPLORE_TRACE_H

#include <stdint.h>

#include "base/err.h"

/* What a phase has in common with the one before. */
enum {
    PLB_REPEATS_TASKS = 1, /* the same entities, in the same order */
    PLB_REPEATS_EDGES = 2, /* and the same edges, bytes and messages */
};

typedef struct plb_trace {
    int64_t n_phases, n_entities;
    int32_t n_ranks;

    const int64_t *entity_key;        /* [n_entities] */
    const uint8_t *entity_migratable; /* [n_entities] */

    const int64_t *task_ptr;    /* [n_phases + 1] */
    const int32_t *task_entity; /* [tasks]; each entity at most once a phase */
    const int32_t *task_rank;   /* [tasks] as recorded */
    const double *task_load;    /* [tasks] seconds */
    const int64_t *task_bytes;  /* [tasks] or NULL: what a migration sends */
    const int64_t *task_memory; /* [tasks] or NULL */

    const int64_t *edge_ptr;            /* [n_phases + 1] */
    const int32_t *edge_src, *edge_dst; /* entities */
    const double *edge_bytes, *edge_messages;

    const uint8_t *repeats; /* [n_phases] of PLB_REPEATS_..., or NULL: to be found out */

    const double *speed;      /* [n_ranks] or NULL */
    const double *background; /* [n_ranks] or NULL */
} plb_trace_t;

#endif
