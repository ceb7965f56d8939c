/* The load database of a recorded run, phase by phase, under placements that may differ from
 * the recorded ones.
 *
 * The rank of an object:
 *   - it starts where it was created (or first appears, if that was not recorded), and stays
 *     there until plb_phases_move; if it may not migrate, it is always where it was recorded;
 *   - an object that comes back is on its last rank, or where it was created if that is
 *     recorded.
 * Its load estimate after a phase is that of the runtime (measure/estimate.h).  Loads of ranks
 * are exact sums, rounded once, with the same bits as in a run.
 *
 * A trace may be given in several parts, with the same numbers for the same entities.
 */
#ifndef PLB_REPLAY_PHASES_H
#define PLB_REPLAY_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "decide/decider.h"
#include "measure/estimate.h"
#include "model/metrics.h"
#include "replay/trace.h"

typedef struct plb_phases_options {
    int32_t n_ranks;
    bool as_recorded; /* true: every object is always where it was recorded; false: as described
                         above */
    bool own_loads;   /* true: the database has the loads and edges of the phase itself (perfect
                         prediction); false: load estimates, and the edges of the phase before */
    bool estimates;   /* true: keep load estimates, which placing needs */
    bool learns;      /* true: also keep estimates from the passes on the present rank alone */
    bool one_by_one;  /* true: the loads of a rank's objects are entered one by one, as in a loop
                         with a lag; false: together */
    bool edges;       /* true: the database has edges */
    bool crossing;    /* true: statistics include the messages and bytes between ranks */
    plb_network_t network; /* what messages add to the time of a rank; zero: nothing */
} plb_phases_options_t;

typedef struct plb_phases {
    plb_phases_options_t opt;
    const plb_trace_t *trace; /* the present part */
    int64_t phase;            /* number of the phase in it */
    /* of each entity */
    int64_t n_entities, room;
    int32_t *held, *was; /* where it is, and where it was before the last move; -1: nowhere, or it
                          * has come since */
    int32_t *at;         /* its index among the present objects, or -1 */
    /* the present objects */
    int64_t n, capacity;
    int32_t *entity, *rank, *from; /* from: the index in the previous phase; -1: it was absent */
    int64_t *key, *bytes, *memory;
    uint8_t *movable;
    double *coords; /* [3 * n] */
    /* all_movable: all of them may migrate; alike: they are the objects of the previous phase;
     * sized, remembers, placed: the trace has `bytes`, `memory`, `coords` */
    bool all_movable, alike, sized, remembers, placed;
    double *estimate, *window, *load; /* estimate: rows of measure/estimate.h, stride n */
    double *drift;                    /* [n] drift of the estimates */
    double *spare;     /* as large as `estimate`, `window` and `load` together; used while objects
                          change */
    const double *now; /* [n] loads of this phase, on the present ranks */
    int64_t passes;    /* since the last move */
    /* objects sorted by rank, for estimates from the present rank alone: */
    int32_t *order;
    int64_t *rank_ptr;
    bool ordered; /* true: `order` is valid; false: objects or their ranks have changed */
    /* the edges of the previous phase, by entity: */
    int64_t n_edges, edge_room;
    const int32_t *edge_src, *edge_dst;
    const double *edge_bytes, *edge_messages;
    int32_t *own_edge;  /* [2 * edge_room] copy of these edges */
    double *own_amount; /* [2 * edge_room] copy of their bytes and messages */
    int32_t *src, *dst; /* [edge_room] by index */
    double *amount;     /* [2 * edge_room] */
    double *speed;      /* [n_ranks] as given to the last plb_phases_move; 1 before that */
    const double *given, *background; /* [n_ranks] of the trace, or NULL */
    double *own_ranks;                /* [2 * n_ranks] copy of `given` and `background` */
    const int64_t *memory_limit;      /* [n_ranks] of the trace, or NULL */
    int64_t *own_limit;               /* [n_ranks] copy of it */
    /* loads of ranks */
    double *sum, *room_of_sums, *total; /* [n_ranks, PLB_SUM_PHASES]; total[PLB_SUM_PHASES] */
    int64_t ahead, ahead_end;           /* the phases of these sums */
    double *time, *messages, *sent;     /* [n_ranks] */
    plb_metrics_t metrics;              /* of time[] */
    bool as_it_was;                     /* true: every object is where it was recorded */
} plb_phases_t;

/* Rows of `estimate`. */
static inline int plb_phases_rows(const plb_phases_t *self)
{
    return !self->opt.estimates ? 0 : self->opt.learns ? PLB_ESTIMATE_ROWS : PLB_ESTIMATE_HERE;
}

int plb_phases_init(plb_phases_t *self, const plb_phases_options_t *opt, plb_err_t *err);
void plb_phases_free(plb_phases_t *self);

/** Begin a part of the trace; it is borrowed until the next part or plb_phases_pause. */
int plb_phases_begin(plb_phases_t *self, const plb_trace_t *trace, plb_err_t *err);

/** Copy what is still needed of the part, which may then be freed. */
int plb_phases_pause(plb_phases_t *self, plb_err_t *err);

/** Begin phase i of the part: its objects are now present, all others are absent.  Load
 * estimates and edges are those of the previous phase. */
int plb_phases_enter(plb_phases_t *self, int64_t i, plb_err_t *err);

/** Remove the present objects whose entity has stays[entity] == 0. */
void plb_phases_drop(plb_phases_t *self, const uint8_t *stays);

#endif
