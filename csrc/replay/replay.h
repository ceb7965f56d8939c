/* Replays a recorded run: computes how it would have run under a decider.
 *
 * The decider gets the same input as in a run: the statistics of each phase at its end, the load
 * database when it asks for it, and the cost of LB steps.  An LB step at the end of phase i places
 * the objects of phase i + 1, by their load estimates at that time.  At the end of the last phase
 * there is no LB step, unless the loop was left early.  With foresight, an LB step takes place at
 * the start of phase i instead, with the loads of that phase (a perfect prediction).
 *
 * The cost of an LB step is plb_replay_opts_t.cost, if this is given.  Otherwise, if the recorded
 * run had an LB step with the same strategy and the same number of migrations after the same
 * phase, the cost is the measured cost of that LB step.  Otherwise the cost comes from the cost
 * model (model/cost.h).
 *
 * Phases may be given in parts: shadow mode gives them while the program runs. */
#pragma once

#include "decide/atsync.h"
#include "replay/phases.h"

#define PLB_LOOP_OPEN                                                                             \
    ((int64_t)1 << 52) /* number of iterations of a loop whose end is not known */

/* A loop of the program (`iterate`): iterations first ... first + n - 1. */
typedef struct plb_loop {
    int64_t first, n;
    double cost;   /* expected seconds of the first LB step; NAN: not known */
    double moving; /* seconds of `cost` that migrations take if all objects move; NAN: not known */
} plb_loop_t;

/* What the recorded run measured for an LB step. */
typedef struct plb_measured_step {
    int64_t iteration;
    int32_t strategy; /* index among the decider's strategies, or -1: none of them */
    int64_t migrations, bytes;
    double statistics, placing, migration, whole; /* seconds of three parts and of the LB step */
} plb_measured_step_t;

typedef struct plb_replay_opts {
    plb_decider_t *decider; /* borrowed; has observed nothing yet; NULL: no LB steps */
    int32_t n_ranks;
    int32_t lag; /* an LB step follows its statistics by this many iterations or more; 0: no lag */
    bool as_recorded; /* every object is always on its recorded rank; only without a decider */
    bool foresight;   /* whether LB steps take place at the start of a phase, with its loads */
    bool moves;       /* true: receipts say that objects moved; false: shadow mode */
    plb_network_t network; /* cost of messages, added to the time of the sending rank */
    double cost; /* seconds of each LB step; NAN: use the measured cost, or that of `model` */
    plb_lb_cost_t model; /* cost of LB steps that were not measured */
    double per_move;     /* seconds per migration, added to the cost of `model` */
    double per_byte;     /* seconds per byte that migrates, added to the cost of `model` */
    const plb_measured_step_t *steps; /* [n_steps], borrowed */
    int64_t n_steps;
    bool keep_times, keep_ranks; /* whether to keep plb_replay_t.times, plb_replay_t.rank */
} plb_replay_opts_t;

typedef struct plb_replay {
    plb_replay_opts_t opt;
    plb_phases_t phases;
    /* The results; the arrays are owned. */
    plb_metrics_t *metrics; /* [n - first] metrics of the ranks' times */
    double *seconds;        /* [n - first] seconds of the phases, see plb_phases_time */
    int32_t *rank;          /* [tasks] rank on which each task ran; NULL: not kept */
    double *times; /* [n, n_ranks] seconds of each rank, without messages; NULL: not kept */
    int64_t n, tasks, room, room_of_tasks;
    int64_t first;             /* the first phase whose metrics and seconds are kept */
    plb_loop_t loop, next;     /* the present loop, and the next one */
    bool begins;               /* whether the next phase is the first one of the loop `next` */
    plb_consensus_root_t root; /* the consensus of a loop with a lag */
    plb_wish_t wish;
    bool due; /* whether the decider asks for an LB step at the end of the last phase */
    plb_verdict_t why;
    plb_iteration_t last; /* statistics of the last phase */
    bool unobserved;      /* whether the decider must still observe `last` */
    int32_t *answer;      /* owned: [phases.n] ranks from an LB step */
    double *speed;        /* owned: [n_ranks] speeds from an LB step */
    int64_t room_of_answer;
} plb_replay_t;

int plb_replay_init(plb_replay_t *self, const plb_replay_opts_t *opts, plb_err_t *err);
void plb_replay_free(plb_replay_t *self);

/** Begin a loop, before its phases are given.  PLB_ERR_STATE: loop->n is negative, or loop->first
 * is not the number of phases so far. */
int plb_replay_loop(plb_replay_t *self, const plb_loop_t *loop, plb_err_t *err);

/** If an LB step is due, do it at the start of the loop, although the first phase is not known
 * yet. objects: a trace with one phase, which has the objects that exist now. */
int plb_replay_start(plb_replay_t *self, const plb_trace_t *objects, plb_err_t *err);

/** Replay the next phases, which belong to the present loop. */
int plb_replay_feed(plb_replay_t *self, const plb_trace_t *trace, plb_err_t *err);

/** Forget metrics and seconds of the phases before `before`, unless opt.keep_times is set. */
void plb_replay_forget(plb_replay_t *self, int64_t before);

/** Let the decider observe the last phase, although the next phase is not known yet.  left: a
 * trace with one phase, which has the objects that exist now; NULL: the objects of the last
 * phase.  early: whether the loop was left before its end; then an LB step that is due takes
 * place now.  The gain of the last LB step is computed. */
int plb_replay_settle(plb_replay_t *self, const plb_trace_t *left, bool early, plb_err_t *err);
