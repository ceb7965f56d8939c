/* A recorded run: the successive phases of a program, as a struct of borrowed arrays.
 *
 * Entities are the objects of the whole run; a task is one entity in one phase. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What a phase has in common with the previous one, as bits. */
enum {
    PLB_REPEATS_TASKS = 1, /* the same entities, in the same order */
    PLB_REPEATS_EDGES = 2, /* the same edges, bytes and messages */
};

/* What the recorded run measured in a phase, over all ranks (measure/stats.h). */
enum {
    PLB_FIGURE_TIME, /* seconds of the slowest rank, including messages */
    PLB_FIGURE_MAX,  /* seconds; the load of the most loaded rank */
    PLB_FIGURE_MEAN,
    PLB_FIGURE_IDLE,
    PLB_FIGURE_UTILIZATION,
    PLB_FIGURE_MIN,
    PLB_FIGURE_MESSAGES,
    PLB_FIGURE_BYTES,
    PLB_N_TRACE_FIGURES
};

typedef struct plb_trace {
    int64_t n_phases, n_entities;
    int32_t n_ranks;

    const int64_t *entity_key;        /* [n_entities] a number that identifies the entity */
    const uint8_t *entity_migratable; /* [n_entities] 1: may migrate, 0: never may */

    const int64_t *task_ptr;    /* [n_phases + 1] where the tasks of each phase begin */
    const int32_t *task_entity; /* [tasks] entity of each task; each at most once per phase */
    const int32_t *task_rank;   /* [tasks] the rank where the task ran */
    const int32_t *task_home;   /* [tasks] rank where the object was created; NULL: unknown */
    const double *task_load;    /* [tasks] seconds; if `speed` is given, work: seconds * speed */
    /* [tasks] seconds as measured on task_rank, or NULL: task_load / speed.  Needs `speed`. */
    const double *task_seconds;
    const int64_t *task_bytes;  /* [tasks] or NULL: bytes that a migration sends */
    const int64_t *task_memory; /* [tasks] bytes of memory, or NULL */
    const double *task_coords;  /* [tasks * 3] position of each task's object, or NULL */
    const double *task_work;    /* [tasks] the user's load estimates, 0: not given; or NULL */
    /* [tasks] 1: may migrate, 0: must stay now; NULL: as entity_migratable says */
    const uint8_t *task_migratable;

    const int64_t *edge_ptr;            /* [n_phases + 1] where the edges of each phase begin */
    const int32_t *edge_src, *edge_dst; /* [edges] entities: sender and receiver */
    const double *edge_bytes, *edge_messages; /* [edges]; edge_messages NULL: one per edge */
    /* [edges] number of the edge's multicast, 0: none; or NULL.  The edges of a multicast follow
     * each other, and each has the multicast's sender, bytes and messages. */
    const int32_t *edge_multicast;

    const uint8_t *repeats; /* [n_phases] bits PLB_REPEATS_..., or NULL: not computed yet */

    const double *speed;         /* [n_ranks] speed of each rank; NULL: all are 1 */
    const double *background;    /* [n_ranks] seconds of other work in an iteration, or NULL */
    const int64_t *memory_limit; /* [n_ranks] bytes; NULL: no limits */

    const double *figures;  /* [n_phases, PLB_N_TRACE_FIGURES] measured values; NULL: unknown */
    const double *measured; /* [n_ranks] speeds at which the loads were measured; NULL: equal */

    /* Ranks that share cores (model/sharing.h); NULL: each has a core of its own.  waits: whether
     * loads include the time in which a rank waited for a core. */
    const int32_t *core_group; /* [n_ranks] */
    const double *group_cores; /* [n_ranks] number of cores of the rank's group */
    bool waits;
} plb_trace_t;
