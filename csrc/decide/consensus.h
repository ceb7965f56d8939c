/* Consensus on the iteration at which all objects rebalance (Menon 3.6.1, figure 3.5), and the
 * change of an announced period (3.6.2): state machines without input or output.
 *
 * Objects run iterations 1, 2, ...; at the end of each they reach AtSync.  Statistics of every
 * iteration are reduced without a barrier, so that objects may be at different iterations when
 * a period is decided.  Two machines find the iteration that is right for all of them:
 *
 *   plb_consensus_root_t   takes the statistics of each iteration, in order, with what the
 *                          trigger wants, and the reduced maxima; gives rulings
 *   plb_consensus_t        one rank: takes its objects' AtSync, the statistics and the rulings;
 *                          gives actions
 *
 * If the reductions give their results to all ranks, every rank has a root: all of them get the
 * same results in the same order, so they decide the same, and nothing is broadcast.  This is
 * why a root takes no statistics while a maximum is being reduced: ranks could see the two in
 * different orders.  Alternatively one root, as in the thesis, broadcasts its rulings, in
 * order.
 *
 * The written rules (letters of the thesis; M is the greatest iteration that any object has
 * begun, T the tentative period, F the final one; a round: the root announces T, the ranks reduce
 * M, the root announces F):
 *
 *   1. F = T if M <= T, else M.  An object that is exactly at T, running it or standing at its
 *      AtSync, has not passed it: it balances there.
 *   2. After its contribution a rank lets no object past max(T, its own maximum): F is never
 *      below that, so that no object can pass F before it is known.  An object there stands in
 *      the pause state.
 *   3. All objects stand at AtSync(F) until the statistics of F are known, then they balance:
 *      these statistics prove that all objects are there.
 *   4. Until then F may be extended, by the ruling alone: no object has passed the old F, and
 *      those that stand there go on.  To reduce F takes a round of its own with T < F.  Since
 *      M <= F, max(T, M) is at most the old F.
 *   5. Bounded lag D > 0 (for ranks that may block in the application's own receive, where the
 *      pause state would deadlock): at AtSync(k) an object waits for the statistics of k - D,
 *      and T >= i + D where i is the iteration whose statistics gave T.  Then M <= i + D <= T
 *      on every rank that sees the statistics of i.  So T is final at once, whether it extends or
 *      reduces the period: no maximum, no second reduction.
 *   6. Once a rank has ended, there are no more LB steps in this run, not even one at a final
 *      iteration at or past the end of the run.  The statistics say how many ranks have ended, so
 *      all ranks learn it at the same iteration.  A rank that has ended goes on making progress,
 *      and contributes empty statistics, until those of some iteration say that all have ended.
 *
 * Iterations are compared with <= and >=, never with =.
 */
#ifndef PLB_DECIDE_CONSENSUS_H
#define PLB_DECIDE_CONSENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PLB_NEVER INT64_MAX /* the iteration that does not come */

typedef enum plb_ruling_kind {
    PLB_RULING_NOTHING,
    PLB_RULING_TENTATIVE, /* round `round` opens with period `iteration` */
    PLB_RULING_FINAL,     /* the final period is `iteration`; PLB_NEVER: there is none */
    PLB_RULING_BALANCE,   /* all objects stand at `iteration`: balance */
    PLB_RULING_OVER,      /* all ranks have ended: no more statistics, nothing more to decide */
} plb_ruling_kind_t;

typedef struct plb_ruling {
    plb_ruling_kind_t kind;
    int64_t round, iteration;
} plb_ruling_t;

/* ---- the root ------------------------------------------------------------------------------- */

typedef struct plb_consensus_root {
    int64_t n_ranks;
    int32_t lag;              /* D; 0: none */
    int64_t seen;             /* statistics taken up to here */
    int64_t round;            /* rounds opened */
    int64_t tentative, final; /* T of the open round; F; PLB_NEVER: there is none */
} plb_consensus_root_t;

#define PLB_WISH_NONE INT64_C(-1) /* the trigger leaves the period as it is */

void plb_consensus_root_init(plb_consensus_root_t *self, int64_t n_ranks, int32_t lag);

/** Whether it takes statistics; if not, it waits for the maximum of its open round. */
bool plb_consensus_root_ready(const plb_consensus_root_t *self);

/** Take the reduced statistics of `iteration` (in order: 1, 2, ...); `n_ended` ranks had ended.
 * `wish`: the period that the trigger wants now (raised to the first iteration that is still
 * free), PLB_NEVER to drop the period, or PLB_WISH_NONE. */
int plb_consensus_root_stats(plb_consensus_root_t *self, int64_t iteration, int64_t n_ended,
                             int64_t wish, plb_ruling_t *out, plb_err_t *err);

/** Take the reduced maximum of round `round`: `reach`. */
int plb_consensus_root_maximum(plb_consensus_root_t *self, int64_t round, int64_t reach,
                               plb_ruling_t *out, plb_err_t *err);

/* ---- a rank --------------------------------------------------------------------------------- */

typedef enum plb_action_kind {
    PLB_ACT_STATS,   /* contribute the statistics of the iterations `first` ... `last` */
    PLB_ACT_MAXIMUM, /* contribute `first` to the maximum of round `round` */
    PLB_ACT_RESUME,  /* objects that stand at an AtSync may ask again */
    PLB_ACT_BALANCE, /* balance at iteration `first`, then plb_consensus_balanced */
    PLB_ACT_DONE,    /* all ranks have ended: nothing more will come */
} plb_action_kind_t;

typedef struct plb_action {
    plb_action_kind_t kind;
    int64_t round, first, last;
} plb_action_t;

#define PLB_MAX_ACTIONS 8 /* one event never causes more */

/** Belongs to the caller; every event starts with an empty one. */
typedef struct plb_actions {
    int n;
    plb_action_t act[PLB_MAX_ACTIONS];
} plb_actions_t;

typedef enum plb_answer {
    PLB_ANSWER_GO,      /* begin the next iteration */
    PLB_ANSWER_PAUSE,   /* stand, make progress, ask again after PLB_ACT_RESUME */
    PLB_ANSWER_BALANCE, /* the same as PAUSE, but the object stands at the final iteration, which
                           may still be extended */
    PLB_ANSWER_END,     /* this was the last iteration of the run */
} plb_answer_t;

typedef struct plb_consensus {
    int64_t *reach;         /* [capacity], owned: 2k stands at AtSync(k), 2k - 1 runs k;
                               below zero: a free slot, -1 - the next free one */
    int64_t capacity, free; /* first free slot, `capacity` if none */
    int64_t n_objects;      /* on this rank */
    int64_t n_behind;     /* number of these that have not finished iteration `contributed` + 1 */
    int32_t lag;          /* D; 0: none */
    int64_t contributed;  /* statistics posted up to here */
    int64_t seen;         /* statistics known up to here */
    int64_t round;        /* rounds contributed to */
    int64_t limit, final; /* no object goes past `limit` <= `final` */
    int64_t end;          /* last iteration of this rank, or PLB_NEVER while unknown */
    bool open; /* true: this rank has contributed to a round whose outcome is not known */
    bool balancing, done;
} plb_consensus_t;

/** Begin a rank without objects before iteration 1.  `end` is its last iteration if that is known,
 *  else PLB_NEVER.  Memory: 8 bytes per object. */
int plb_consensus_init(plb_consensus_t *self, int32_t lag, int64_t end, plb_err_t *err);
void plb_consensus_free(plb_consensus_t *self);

/** Add an object that has finished `iteration` and waits there; its slot identifies it.  It must
 * not be behind the contributed statistics, nor further than the rules allow.  A program that
 * runs its rank as a whole adds one object at 0. */
int plb_consensus_add(plb_consensus_t *self, int64_t iteration, int64_t *slot, plb_actions_t *out,
                      plb_err_t *err);

/** Remove an object, wherever it is. */
int plb_consensus_remove(plb_consensus_t *self, int64_t slot, plb_actions_t *out, plb_err_t *err);

/** A running object has finished its iteration and waits at AtSync.  Next it asks. */
int plb_consensus_reached(plb_consensus_t *self, int64_t slot, plb_actions_t *out, plb_err_t *err);

/** May the waiting object go on?  After PLB_ANSWER_GO it runs its next iteration. */
int plb_consensus_ask(plb_consensus_t *self, int64_t slot, plb_answer_t *answer, plb_err_t *err);

/** The same question without a change of state; PLB_ANSWER_GO also for an object that runs. */
plb_answer_t plb_consensus_answer(const plb_consensus_t *self, int64_t slot);

/** Set the last iteration of this rank to `iteration`, which must not be before any that has
 * begun. */
int plb_consensus_end(plb_consensus_t *self, int64_t iteration, plb_actions_t *out,
                      plb_err_t *err);

/** The rank fails: it loses all of its objects and has ended, but goes on serving.  If it had
 * already contributed its statistics of the final iteration, the LB step still takes place, and
 * must give this rank no objects. */
void plb_consensus_fail(plb_consensus_t *self, plb_actions_t *out);

/** Whether its statistics of `iteration` count this rank as ended. */
bool plb_consensus_ended(const plb_consensus_t *self, int64_t iteration);

/** Take the statistics of `iteration` and the root's ruling on them. */
int plb_consensus_stats(plb_consensus_t *self, int64_t iteration, const plb_ruling_t *ruling,
                        plb_actions_t *out, plb_err_t *err);

/** Take the root's ruling on a maximum. */
int plb_consensus_maximum(plb_consensus_t *self, const plb_ruling_t *ruling, plb_actions_t *out,
                          plb_err_t *err);

/** Call after the LB step that PLB_ACT_BALANCE asked for, when objects have been removed and
 * added. */
int plb_consensus_balanced(plb_consensus_t *self, plb_actions_t *out, plb_err_t *err);

#endif
