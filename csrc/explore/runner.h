/* What replay and optimum share: one phase of a recorded run as the strategy sees it. */
#ifndef PLB_EXPLORE_RUNNER_H
#define PLB_EXPLORE_RUNNER_H

#include "explore/replay.h"

typedef struct plb_runner {
    const plb_trace_t *trace;
    const plb_replay_opts_t *opts;
    plb_replay_t *out;
    bool balanced;   /* at least once */
    int64_t since;   /* the first of the phases up to the present one that have the same tasks */
    int64_t listed;  /* of which `since` key[] and movable[] are, or -1 */
    bool alike;      /* the phase before has the same tasks */
    bool same_edges; /* and the same edges, where traffic counts */
    bool steady;     /* nothing in it was as recorded, and no balancing came since */
    bool all_movable;
    int64_t alike_end;        /* phases up to here are known to be alike */
    int64_t ahead, ahead_end; /* phases of which sum[] are the loads of the ranks */
    double *sum;              /* [n_ranks, PLB_AHEAD] */
    const int32_t *counted;   /* ranks for which messages[] and bytes[] are, or NULL */
    int64_t counted_in;       /* of this phase */
    int32_t *held;            /* [n_entities] rank given by a balancing, or -1: as recorded */
    int32_t *at;              /* [n_entities] -1 between two uses */
    int32_t *answer;          /* [largest phase] */
    int64_t *key;             /* [largest phase], as the next */
    uint8_t *movable;
    int32_t *src, *dst; /* [most edges], both ends tasks of the phase */
    double *edge_bytes, *edge_messages;
    double *time, *messages, *bytes; /* [n_ranks] */
    int64_t since_tick;
} plb_runner_t;

/** With trace, opts and out filled in.  plb_runner_free also after a failure. */
int plb_runner_init(plb_runner_t *self, plb_err_t *err);
void plb_runner_free(plb_runner_t *self);

/** What does not belong to one phase. */
int plb_runner_check(const plb_trace_t *trace, plb_err_t *err);

/** Has phase i > 0 the tasks of the one before, in the same order? */
bool plb_runner_alike(const plb_trace_t *trace, int64_t i);

/** The tasks of phase i; `alike` those of the phase before, which were right. */
int plb_runner_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/** Ask the strategy for phase i with its tasks at `rank`; the new ranks are in self->answer.
 *  self->since is that of phase i. */
int plb_runner_ask(plb_runner_t *self, int64_t i, const int32_t *rank, plb_decision_t *d,
                   plb_err_t *err);

#endif
