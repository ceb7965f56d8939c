/* Replay: a recorded run, as it would have been under a decider.
 *
 * The decider is fed as in the run itself: the statistics of each phase at its end, the load
 * database when it asks for it, what an LB step cost.  An LB step at the end of phase i places the
 * objects that phase i + 1 has, by their load estimates at that time, and holds from phase i + 1
 * on; none takes place at the end of the last phase.  With foresight it takes place at the start
 * of phase i instead, with the loads of that phase, as with a perfect prediction.
 *
 * What an LB step costs is, in this order: what was given; what the recorded run measured for the
 * same step (the same phase, strategy and number of migrations); what the cost model says.
 *
 * Phases may come in parts, as they do in shadow mode.
 */
#ifndef PLB_REPLAY_REPLAY_H
#define PLB_REPLAY_REPLAY_H

#include "decide/atsync.h"
#include "replay/phases.h"

/* A loop of the program (`iterate`): the decider knows its end and the expected cost.
 */
typedef struct plb_loop {
    int64_t first, n;
    double cost; /* seconds that a first LB step may cost; NAN: not known */
} plb_loop_t;

/* An LB step of the recorded run, as it was measured. */
typedef struct plb_measured_step {
    int64_t iteration;
    int32_t strategy; /* index among the decider's, or -1: none of them */
    int64_t migrations, bytes;
    double statistics, placing, migration, whole; /* seconds */
} plb_measured_step_t;

typedef struct plb_replay_opts {
    plb_decider_t *decider; /* borrowed, fresh; NULL: never balances */
    int32_t n_ranks;
    int32_t lag;      /* iterations by which decisions come later, as in a loop with this lag */
    bool as_recorded; /* without a decider: every object is where it was recorded, not where it
                         began */
    bool foresight;
    bool moves;            /* the receipts say that objects moved; false: that they would have */
    plb_network_t network; /* what messages add to the time of a rank */
    double cost;           /* seconds of each LB step; NAN: measured or modelled */
    plb_lb_cost_t model;   /* of LB steps that were not measured */
    double per_move, per_byte; /* seconds on top, of each migration and byte of an LB step */
    const plb_measured_step_t *steps; /* [n_steps], borrowed */
    int64_t n_steps;
    bool keep_times, keep_ranks; /* of the ranks in every phase; of the tasks */
    plb_tick_fn tick;            /* or NULL */
    void *tick_arg;
} plb_replay_opts_t;

typedef struct plb_replay {
    plb_replay_opts_t opt;
    plb_phases_t phases;
    /* what came out, owned: */
    plb_metrics_t *metrics; /* [n] of the ranks' times */
    double *seconds;        /* [n] of the phase: plb_phases_time */
    int32_t *rank;          /* [tasks] where each ran; or NULL: not asked for */
    double *times;          /* [n * n_ranks] without messages; or NULL: not asked for */
    int64_t n, tasks, room, room_of_tasks;
    /* the loop at hand: */
    plb_loop_t loop, next;
    bool begins;               /* the next one does, with the next phase */
    plb_consensus_root_t root; /* of a loop with a lag */
    plb_wish_t wish;
    bool due;
    plb_verdict_t why;
    plb_iteration_t last; /* statistics of the phase that is over, not told yet */
    bool untold;
    int32_t *answer; /* owned */
    double *speed;   /* owned */
    int64_t room_of_answer, since_tick;
} plb_replay_t;

int plb_replay_init(plb_replay_t *self, const plb_replay_opts_t *opts, plb_err_t *err);
void plb_replay_free(plb_replay_t *self);

/** A loop begins, before its phases come.  PLB_ERR_STATE: it does not follow the one before. */
int plb_replay_loop(plb_replay_t *self, const plb_loop_t *loop, plb_err_t *err);

/** The next phases; those of a loop that has begun. */
int plb_replay_feed(plb_replay_t *self, const plb_trace_t *trace, plb_err_t *err);

/** No more phases are under way: the decider knows all of them.  More may follow.  stays[entity]:
 *  whether it is still there; NULL: all of the last phase are.  `early`: the loop was left before
 *  its end and another one follows, so an LB step that is due takes place now. */
int plb_replay_settle(plb_replay_t *self, const uint8_t *stays, bool early, plb_err_t *err);

#endif
