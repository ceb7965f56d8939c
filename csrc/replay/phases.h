/* The load database of a recorded run, phase by phase, under placements that may differ from
 * the recorded ones.
 *
 * The rank of an object (an "entity" of the trace):
 *   - An object that may never migrate is always on its recorded rank.
 *   - An object that appears is on the rank where it was created.  If the trace does not have
 *     that rank, an object that was absent and comes back is on its last rank, and a new object is
 *     on its recorded rank.
 *   - An object stays on its rank until plb_phases_move moves it.
 * Load estimates are computed as in the runtime (measure/estimate.h).  Loads of ranks are exact
 * sums, rounded once, with the same bits as in a run.
 *
 * A trace may be given in several parts, with the same numbers for the same entities. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "decide/decider.h"
#include "measure/estimate.h"
#include "model/metrics.h"
#include "model/sharing.h"
#include "replay/trace.h"

typedef struct plb_phases_options {
    int32_t n_ranks;
    bool as_recorded; /* true: every object is always on its recorded rank; false: see above */
    bool own_loads;   /* true: the database has the loads and edges of the phase itself (perfect
                         prediction); false: load estimates, and the edges of the previous phase */
    bool estimates;   /* whether to keep load estimates, which LB steps need */
    bool learns;      /* whether to keep also estimates from iterations on the present rank only */
    bool one_by_one;  /* whether to update a rank's estimates one by one, as in a run with a lag */
    bool edges;       /* whether the database has edges */
    bool crossing;    /* whether statistics count the messages and bytes between ranks */
    plb_network_t network; /* cost of messages, added to the time of the sending rank */
} plb_phases_options_t;

typedef struct plb_phases {
    plb_phases_options_t opt;
    const plb_trace_t *trace; /* the part of the trace that is replayed now */
    int64_t phase;            /* index of the present phase in the part `trace` */
    /* Arrays of entities. */
    int64_t n_entities, room;
    int32_t *rank_of;     /* present or last rank; -1: the entity has not appeared yet */
    int32_t *rank_before; /* rank before the last LB step; -1: the entity was absent */
    int32_t *index_of;    /* index of each entity among the present objects; -1: it is absent */
    /* Arrays of present objects, in the order of the trace. */
    int64_t n, capacity;
    int32_t *entity, *rank, *from; /* from: index in the previous phase; -1: it was absent */
    int64_t *key, *bytes, *memory;
    uint8_t *movable;
    double *coords;    /* [3 * n] position of each object */
    double *work;      /* [n] the user's load estimates */
    char *held;        /* [24, capacity] scratch memory */
    bool some_stay;    /* whether `movable` was copied from task_migratable */
    bool all_movable;  /* whether entity_migratable is 1 for all present objects */
    bool same_objects; /* whether the previous phase had the same objects */
    /* whether the trace has task_bytes, task_memory, task_coords, task_work */
    bool has_bytes, has_memory, has_coords, has_work;
    double *estimate;         /* [plb_phases_rows, n] the rows of measure/estimate.h */
    double *window;           /* [n] sum of `phase_load` since the last LB step */
    double *drift;            /* [n] change of each load per iteration (plb_estimate_drift) */
    double *spare;            /* [rows + 1, capacity] scratch memory */
    double *load;             /* [n] memory to which `phase_load` may point */
    const double *phase_load; /* [n] load of each object: seconds on its present rank, or work if
                                 plb_phases_pace is not NULL */
    double *other;            /* [n_ranks] seconds of background work since the last LB step */
    /* Objects sorted by rank; only used if `learns` is true. */
    int32_t *order;
    int64_t *rank_ptr;
    bool ordered; /* whether `order` is valid */
    /* Edges of the previous phase (own_loads: the present phase); their ends are entities. */
    int64_t n_edges, edge_room;
    const int32_t *edge_src, *edge_dst, *edge_multicast;
    const double *edge_bytes, *edge_messages;
    int32_t *own_edge;  /* [3 * n_edges] copies of edge_src, edge_dst and edge_multicast */
    double *own_amount; /* [2 * n_edges] copies of edge_bytes and edge_messages */
    /* [edge_room] indices of senders and receivers: of edges, then of multicasts */
    int32_t *src, *dst;
    double *amount; /* [2, edge_room] row 0: bytes, row 1: messages; edges, then multicasts */
    int64_t *start; /* [edge_room + 1] where the receivers of each multicast begin */
    int64_t *mark;  /* [n_ranks] scratch memory */
    double *speed;  /* [n_ranks] speeds from the last plb_phases_move; 1 before that */
    const double *trace_speed, *background; /* [n_ranks] from the trace, or NULL */
    double *own_ranks;                      /* [2 * n_ranks] copies of trace_speed, background */
    const int64_t *memory_limit;            /* [n_ranks] from the trace, or NULL */
    int64_t *own_limit;                     /* [n_ranks] copy of `memory_limit` */
    /* [n_ranks, PLB_SUM_PHASES] loads of ranks in the phases sums_begin ... sums_end - 1 */
    double *sum, *room_of_sums; /* room_of_sums: scratch memory */
    int64_t sums_begin, sums_end;
    /* [n_ranks] seconds of each rank; messages and bytes that it sends to other ranks */
    double *time, *messages, *sent;
    plb_metrics_t metrics; /* metrics of `time` */
    plb_sharing_t sharing; /* ranks that share cores; `group` is NULL: none do */
    double *shared;        /* [2 * n_ranks] scratch memory */
    double span; /* seconds until the last rank has computed: metrics.max, if none share cores */
    double recorded_span; /* the same in the recorded placement; only set if the trace has
                             figures */
    bool in_seconds;      /* whether the trace has task_seconds */
    bool all_as_recorded; /* whether every object is on its recorded rank; only determined if
                             opt.as_recorded is set or the trace has figures */
} plb_phases_t;

/* Speeds by which sums of `phase_load` are divided to give seconds; NULL: sums are seconds. */
static inline const double *plb_phases_pace(const plb_phases_t *self)
{
    return self->in_seconds ? NULL : self->trace_speed;
}

static inline int plb_phases_rows(const plb_phases_t *self)
{
    return !self->opt.estimates ? 0 : self->opt.learns ? PLB_ESTIMATE_ROWS : PLB_ESTIMATE_HERE;
}

int plb_phases_init(plb_phases_t *self, const plb_phases_options_t *opt, plb_err_t *err);
void plb_phases_free(plb_phases_t *self);

/** Begin a part of the trace.  The caller keeps it until the next part, or plb_phases_pause. */
int plb_phases_begin(plb_phases_t *self, const plb_trace_t *trace, plb_err_t *err);

/** Copy what later parts need from the present part; afterwards the caller may free the part. */
int plb_phases_pause(plb_phases_t *self, plb_err_t *err);

/** Begin phase i of the part: its objects are now present, all other objects are absent.  Load
 * estimates and edges are those of the previous phase. */
int plb_phases_enter(plb_phases_t *self, int64_t i, plb_err_t *err);

/** Copy the properties of the present objects from the tasks first, first + 1, ... */
void plb_phases_take_facts(plb_phases_t *self, int64_t first);
