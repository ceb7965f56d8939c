/* Replay: a recorded run under other placements.
 *
 * Which placement holds when:
 *   - until the first balancing every entity is where it was recorded;
 *   - a balancing at the end of phase i sees the loads (and edges) of phase i and holds from phase
 *     i + 1 on; with foresight it is done at the start of phase i instead, as with a perfect
 *     prediction, and holds for phase i already;
 *   - an entity that appears after a balancing starts where it was recorded and stays there until
 *     the next balancing; one that may not migrate is always where it was recorded.
 * The time of a phase is the maximum over the ranks of
 *     background + load / speed + alpha * messages + beta * bytes        (Menon eq. 3.6)
 * with the messages and bytes that the rank sends to other ranks, between entities that both have
 * a task in the phase.  Loads are added in the order of the tasks, traffic in that of the edges.
 */
#ifndef PLB_EXPLORE_REPLAY_H
#define PLB_EXPLORE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "decide/trigger.h"
#include "explore/trace.h"
#include "measure/metrics.h"
#include "place/strategy.h"

typedef struct plb_replay_opts {
    const plb_strategy_t *strategy;
    const double *params; /* the strategy's */
    uint64_t seed;
    plb_trigger_t *trigger; /* fresh, iterations are phase indices; NULL: never balance */
    bool foresight;
    double cost;                            /* seconds of a balancing, or NAN: measured, that is */
    double migration_alpha, migration_beta; /* strategy + alpha * migrations + beta * bytes */
    double alpha, beta;                     /* seconds per message and per byte */
    bool keep_times;                        /* of the ranks in every phase */
    plb_tick_fn tick;                       /* or NULL */
    void *tick_arg;
} plb_replay_opts_t;

typedef struct plb_decision {
    int64_t phase;
    plb_verdict_t verdict; /* the trigger's */
    bool applied;          /* false: at the end of the last phase, and then without cost */
    double before, after;  /* max/mean on what the strategy saw */
    int64_t migrations, bytes;
    double seconds; /* that the strategy took */
    double cost;    /* what the balancing adds to the run; 0 where it is not applied */
} plb_decision_t;

typedef struct plb_replay { /* owned */
    plb_metrics_t *metrics; /* [n_phases] of the ranks' times */
    int32_t *rank;          /* [tasks] where each ran; NULL: as recorded, for nothing balances */
    double *times;          /* [n_phases * n_ranks] without messages; or NULL: not asked for */
    plb_decision_t *decisions;
    int64_t n_decisions;
} plb_replay_t;

/** out[n_phases]: what phases have in common with the one before, for who replays a trace often.
 */
int plb_trace_repeats(const plb_trace_t *trace, uint8_t *out, plb_err_t *err);

/** Run through all phases, checking what it reads.  O(tasks + edges) beside the strategy. */
int plb_replay_run(plb_replay_t *self, const plb_trace_t *trace, const plb_replay_opts_t *opts,
                   plb_err_t *err);

void plb_replay_free(plb_replay_t *self);

#endif
