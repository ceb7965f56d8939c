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
 * model (model/model.h).
 *
 * The run of a program that owns its data (decide/advisor.h) is replayed by its advisor: an LB
 * step places the objects of the phase that has just ended, by their loads in this phase, and they
 * move before the next phase, or one phase later if the program computes while they move.
 *
 * Phases may be given in parts: shadow mode gives them while the program runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "decide/advisor.h"
#include "decide/consensus.h"
#include "decide/decider.h"
#include "decide/trigger.h"
#include "measure/measure.h"
#include "model/model.h"

/* A recorded run: the successive phases of a program, as a struct of borrowed arrays.
 *
 * Entities are the objects of the whole run; a task is one entity in one phase. */

/* What the recorded run measured in a phase, over all ranks (measure/measure.h). */
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
    /* [tasks * n_subphases] loads of a task in the parts of its phase; all ranks wait for each
     * other at the end of a part.  The unit is that of task_seconds, if given, else that of
     * task_load.  NULL: phases have no parts. */
    int32_t n_subphases;
    const double *task_subphases;
    const int64_t *task_bytes;  /* [tasks] or NULL: bytes that a migration sends */
    const int64_t *task_memory; /* [tasks] bytes of memory, or NULL */
    const double *task_coords;  /* [tasks * 3] position of each task's object, or NULL */
    /* Data that objects share: as block, block_bytes and home of a snapshot, or NULL. */
    int32_t n_blocks;
    const int32_t *task_block;  /* [tasks] */
    const int64_t *block_bytes; /* [n_blocks] */
    const int32_t *block_home;  /* [n_blocks] */
    const double *task_work;    /* [tasks] the user's load estimates, 0: not given; or NULL */
    /* [tasks] 1: may migrate, 0: must stay now; NULL: as entity_migratable says */
    const uint8_t *task_migratable;

    const int64_t *edge_ptr;            /* [n_phases + 1] where the edges of each phase begin */
    const int32_t *edge_src, *edge_dst; /* [edges] entities: sender and receiver */
    const double *edge_bytes, *edge_messages; /* [edges]; edge_messages NULL: one per edge */
    /* [edges] number of the edge's multicast, 0: none; or NULL.  The edges of a multicast follow
     * each other, and each has the multicast's sender, bytes and messages. */
    const int32_t *edge_multicast;

    const double *speed;      /* [n_ranks] speed of each rank; NULL: all are 1 */
    const double *background; /* [n_ranks] seconds of other work in an iteration, or NULL */
    const int64_t *memory_limit, *node_memory_limit; /* [n_ranks] bytes; NULL: no limits */
    const int32_t *node; /* [n_ranks] and near[2], as in a snapshot; or NULL */
    const double *near;

    const double *figures;  /* [n_phases, PLB_N_TRACE_FIGURES] measured values; NULL: unknown */
    const double *measured; /* [n_ranks] speeds at which the loads were measured; NULL: equal */

    /* Ranks that share cores (model/model.h); NULL: each has a core of its own.  waits: whether
     * loads include the time in which a rank waited for a core. */
    const int32_t *core_group; /* [n_ranks] */
    const double *group_cores; /* [n_ranks] number of cores of the rank's group */
    bool waits;
} plb_trace_t;

/** Check where each phase begins in the arrays, and the values of each rank, e.g. speeds. */
int plb_trace_check(const plb_trace_t *trace, plb_err_t *err);

/** Check the tasks of phase i.  alike: the entities are those of phase i - 1, already checked. */
int plb_trace_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/* The load database of a recorded run, phase by phase, under placements that may differ from
 * the recorded ones.
 *
 * The rank of an object (an "entity" of the trace):
 *   - An object that may never migrate is always on its recorded rank.
 *   - An object that appears is on the rank where it was created.  If the trace does not have
 *     that rank, an object that was absent and comes back is on its last rank, and a new object is
 *     on its recorded rank.
 *   - An object stays on its rank until plb_phases_move moves it.
 * Load estimates are computed as in the runtime (measure/measure.h).  Loads of ranks are exact
 * sums, rounded once, with the same bits as in a run.
 *
 * A trace may be given in several parts, with the same numbers for the same entities. */

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
    double *coords;                        /* [3 * n] position of each object */
    double *work;                          /* [n] the user's load estimates */
    int32_t n_blocks, *block, *block_home; /* copies of the trace's arrays */
    int64_t *block_bytes;
    bool some_stay;    /* whether `movable` was copied from task_migratable */
    bool all_movable;  /* whether entity_migratable is 1 for all present objects */
    bool same_objects; /* whether the previous phase had the same objects */
    /* whether the trace has task_bytes, task_memory, task_coords, task_work, block_home */
    bool has_bytes, has_memory, has_coords, has_work, has_homes;
    /* [plb_phases_rows, n] the rows of measure/measure.h, then as many for each subphase */
    double *estimate;
    /* [1 + n_subphases, n] sums since the last LB step: of `phase_load`, of each subphase */
    double *window;
    double *drift;            /* [n] change of each load per iteration (plb_estimate_drift) */
    double *spare;            /* [rows + 1, capacity] scratch memory */
    double *load;             /* [n] memory to which `phase_load` may point */
    const double *phase_load; /* [n] load of each object: seconds on its present rank, or work if
                                 plb_phases_pace is not NULL */
    int32_t n_subphases;
    double *part;     /* [n_subphases, n] loads of the subphases, in the unit of `phase_load` */
    double *parts;    /* [n, n_subphases] expected loads of the subphases, for the database */
    double *part_sum; /* [n_ranks] scratch memory */
    double *other;    /* [n_ranks] seconds of background work since the last LB step */
    plb_groups_t on;  /* objects by rank; only if `learns` is true */
    bool ordered;     /* whether `on` is valid */
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
    /* [n_ranks] the trace's speed, background, limits, node, and near[2], in the arrays own_...;
     * or NULL */
    const double *trace_speed, *background, *near;
    const int64_t *memory_limit, *node_memory_limit;
    const int32_t *node;
    double *own_ranks, own_near[2];
    int64_t *own_limit;
    int32_t *own_node;
    double *sum, *room_of_sums; /* [n_ranks] loads of the ranks; [2 * n_ranks] scratch memory */
    /* [n_ranks] seconds of each rank; messages and bytes that it sends to other ranks */
    double *time, *messages, *sent;
    plb_metrics_t metrics; /* metrics of `time` */
    plb_sharing_t sharing; /* ranks that share cores; `group` is NULL: none do */
    double *shared;        /* [2 * n_ranks] scratch memory */
    double span; /* seconds until the last rank has computed: metrics.max, if none share cores */
    double recorded_span; /* `span` of the recorded placement; only set if the trace has figures */
    bool in_seconds;      /* whether the trace has task_seconds */
    bool all_as_recorded; /* whether every object is on its recorded rank; only determined if
                             opt.as_recorded is set or the trace has figures */
} plb_phases_t;

/* Return speeds by which sums of `phase_load` are divided to give seconds; NULL: sums are seconds.
 */
static inline const double *plb_phases_pace(const plb_phases_t *self)
{
    return self->in_seconds ? NULL : self->trace_speed;
}

static inline int plb_phases_rows(const plb_phases_t *self)
{
    return !self->opt.estimates ? 0 : self->opt.learns ? PLB_ESTIMATE_ROWS : PLB_ESTIMATE_HERE;
}

/* Return the number of rows of `estimate`, including those of subphases; `window` follows them. */
static inline int plb_phases_all_rows(const plb_phases_t *self)
{
    return plb_phases_rows(self) * (1 + self->n_subphases);
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

/* The loads of a phase: times of the ranks, statistics, and the update of load estimates. */

/** Compute self->time and self->metrics from the loads of the phase. */
void plb_phases_run(plb_phases_t *self);

/** Return the statistics of the phase, equal to those that the ranks of a run would reduce. */
plb_iteration_t plb_phases_statistics(const plb_phases_t *self, int64_t iteration);

/** Return the seconds of a phase: the measured time if every object is on its recorded rank, else
 * the measured time plus the difference between `span`, the seconds until the last rank has
 * computed, and `recorded_span`, the same in the recorded placement.  If no time was measured
 * (NULL), or far less than the largest load (loads are then no seconds): `span`.
 * measured[PLB_N_TRACE_FIGURES]: the figures of the phase. */
double plb_phase_seconds(const double *measured, bool as_recorded, double span,
                         double recorded_span);

/** Return the seconds of the phase, see plb_phase_seconds. */
double plb_phases_time(const plb_phases_t *self);

/** End the phase: add its loads to the estimates, and to the sums since the last LB step. */
int plb_phases_leave(plb_phases_t *self, plb_err_t *err);

/* The load database for an LB step, and what an LB step does to the objects of a phase. */

/** Get the load database of the present objects; it is valid until the next call with `self`. */
int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err);

/** Move the present objects to rank[n].  speed[n_ranks]: speeds of the ranks, by which load
 * estimates are converted.  If `speed` is NULL or speed[0] is 0, all speeds count as 1.  goes_on:
 * this is a further slice of the last move; plb_phases_sums treats both as one move. */
void plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed, bool goes_on);

/** Compute the largest sum of a rank's loads and other work since the last move: *now, and *was
 * under the previous placement. */
int plb_phases_sums(plb_phases_t *self, double *was, double *now, plb_err_t *err);

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
    double statistics, placing, migration, whole; /* seconds of its parts, and of the LB step */
    double hidden; /* seconds for which a rank computed while data moved; NAN: none */
} plb_measured_step_t;

typedef struct plb_replay_opts {
    plb_decider_t *decider; /* borrowed; has observed nothing yet; NULL: no LB steps */
    plb_advisor_t *advisor; /* borrowed, with the same decider; NULL: the run of a balancer */
    int32_t ahead; /* with an advisor: number of phases that compute while data move, 0 or 1 */
    int32_t n_ranks;
    int32_t lag; /* smallest number of iterations from the statistics to the LB step; 0: no lag */
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
    plb_ask_t due; /* PLB_ASK_BALANCE or PLB_ASK_BEGIN: what is due after the last phase */
    plb_verdict_t why;
    plb_iteration_t last; /* statistics of the last phase */
    bool unobserved;      /* whether the decider must still observe `last` */
    double hidden;        /* seconds, as measured for the last LB step; then 0 */
    /* With an advisor: statistics of the last phases, a ring [lag + 1] (owned), of which the
     * advisor has observed those of the first n_told phases; the phase at whose end objects move
     * to `answer` (-1: none do); and what the ranks report about the LB step then. */
    plb_iteration_t *late;
    int64_t n_told, moves_at;
    plb_advisor_outcome_t outcome;
    int32_t *answer; /* owned: [phases.n] ranks from an LB step */
    double *speed;   /* owned: [n_ranks] speeds from an LB step */
    int64_t room_of_answer;
} plb_replay_t;

int plb_replay_init(plb_replay_t *self, const plb_replay_opts_t *opts, plb_err_t *err);
void plb_replay_free(plb_replay_t *self);

/** Begin a loop, before its phases are given.  PLB_ERR_STATE: loop->n is negative, or loop->first
 * is not the number of phases so far. */
int plb_replay_loop(plb_replay_t *self, const plb_loop_t *loop, plb_err_t *err);

/** Replay the next phases, which belong to the present loop. */
int plb_replay_feed(plb_replay_t *self, const plb_trace_t *trace, plb_err_t *err);

/** Forget metrics and seconds of the phases before `before`, unless opt.keep_times is set. */
void plb_replay_forget(plb_replay_t *self, int64_t before);

/** Let the decider observe the last phase, although the next phase is not known yet, and compute
 * the gain of the last LB step.  left: a trace with one phase, which has the objects that exist
 * now; NULL: the objects of the last phase.  early: whether the loop was left before its end; then
 * an LB step that is due takes place now.  begins: instead, a loop begins, so that only an LB step
 * that is due takes place. */
int plb_replay_settle(plb_replay_t *self, const plb_trace_t *left, bool early, bool begins,
                      plb_err_t *err);

/* The best schedule of LB steps for a run that is completely known.
 *
 * The search goes forward over the phases.  A state is a placement of all objects, with the time
 * of the fastest schedule that leads to it.  At the end of each phase the fastest states take an
 * LB step with each strategy; of states with the same placement, the fastest one remains.  States
 * whose lower bound is not below the time of a known schedule are dropped.  With GreedyLB alone,
 * all LB steps of a phase lead to one placement, unless loads depend on the rank or objects come
 * back to their last rank: then this is a dynamic programme, and exact.  In other cases it is a
 * beam search: if there are too many states, it keeps those that are the fastest of all states
 * with the same last LB step, because an LB step pays only later.  Then the result is exact if no
 * state was left out. */

typedef struct plb_optimum {
    double time;    /* seconds of all iterations and LB steps */
    double bound;   /* seconds: lower bound for all schedules with any strategies */
    bool exact;     /* false: the search skipped schedules, so a shorter one is possible */
    int64_t *when;  /* owned; [n] iterations at whose end to rebalance, ascending */
    int32_t *which; /* owned; [n] index of each LB step's strategy */
    int64_t n;      /* number of LB steps */
} plb_optimum_t;

typedef struct plb_optimum_opts {
    double cost;   /* seconds of an LB step, zero or more */
    int64_t width; /* 1 or more: largest number of strategy calls at the end of a phase; each
                      strategy may be called once in any case */
    double upper;  /* seconds of a known schedule; INFINITY: none is known */
    uint64_t seed; /* seed of strategies that draw random numbers */
} plb_optimum_opts_t;

/** Find the best schedule, each LB step with one of strategy[n].  As in a replay, an LB step at
 * the end of phase i places the objects of phase i + 1, by their load estimates at that time.
 *
 * self->time is INFINITY if the search found no schedule shorter than `upper`; if self->exact is
 * also true, there is no such schedule. */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err);

/** Call this also after a failure of the search. */
static inline void plb_optimum_free(plb_optimum_t *self)
{
    PLB_FREE(self->when, self->which);
    *self = (plb_optimum_t){0};
}
