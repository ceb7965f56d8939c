/* Consensus of all ranks on the iteration at which all objects rebalance (Menon 3.6.1,
 * figure 3.5), and the change of an announced iteration (3.6.2).
 *
 * Objects run iterations 1, 2, ...; at the end of each they reach AtSync.  Statistics of every
 * iteration are reduced without a barrier.  So objects may be at different iterations when the
 * statistics ask for an LB step.  Two state machines find an iteration that no object has passed:
 *
 *   plb_consensus_root_t   In: the statistics of each iteration, in order; the iteration at which
 *                          the trigger wants an LB step; the reduced maxima.  Out: rulings, which
 *                          are the root's decisions.
 *   plb_consensus_t        One rank.  In: the arrival of its objects at AtSync, the statistics,
 *                          the rulings.  Out: actions.
 *
 * Example: the statistics of iteration 10 lead to T = 12.  Meanwhile the objects have begun
 * iterations up to M = 13.  The ranks reduce M, so F = max(T, M) = 13: objects wait at the end of
 * iteration 13.  When the statistics of iteration 13 are known, all objects are there, and all
 * ranks rebalance.  With a lag of D = 4, no object has begun iteration 15 when the statistics of
 * iteration 10 are known: T = 14 is final at once.
 *
 * If the reductions give their results to all ranks, every rank has a root.  All roots get the
 * same results in the same order, so they decide the same, and nothing is broadcast.  For this
 * reason a root takes no statistics while a maximum is being reduced: ranks could get the two in
 * different orders.  Alternatively there is one root, as in the thesis, which broadcasts its
 * rulings in order.
 *
 * The rules, in the letters of the thesis.  M is the greatest iteration that any object has begun,
 * T the tentative iteration of the LB step, F the final one (the thesis calls them periods).  In a
 * round the root announces T, the ranks reduce M, and the root announces F.
 *
 *   1. F = T if M <= T, else M.  An object that runs iteration T or waits at AtSync(T), the end of
 *      iteration T, has not passed T: it rebalances there.
 *   2. When a rank has contributed its maximum to a round, its objects do not go beyond iteration
 *      max(T, that maximum), and F is never below this.  So no object can pass F before F is
 *      known.  An object that waits for this reason is in the pause state.
 *   3. All objects wait at AtSync(F) until the statistics of F are known, which prove that all
 *      objects are there.  Then they rebalance.
 *   4. Before the LB step, a ruling may raise F without a round: no object has passed the old F,
 *      and objects that wait there go on.  To lower F, the root opens a round with T < F.  Since M
 *      <= F, the new max(T, M) is at most the old F.
 *   5. With a lag D > 0, an object at AtSync(k) waits for the statistics of k - D, and T >= i + D,
 *      where i is the iteration whose statistics led to T.  Then M <= i + D <= T on every rank
 *      that gets the statistics of i.  So T is final at once, whether it raises or lowers F: no
 *      maximum is reduced.  A lag is for ranks that may block in the application's own receive,
 *      where the pause state would deadlock.
 *   6. Once a rank has ended, there are no more LB steps in this run, not even at an F that was
 *      announced before.  The statistics tell how many ranks have ended, so all ranks learn this
 *      at the same iteration.  A rank that has ended goes on making progress, and contributes
 *      empty statistics, until the statistics of an iteration tell that all ranks have ended.
 *
 * Whether objects have reached T or F is tested with <= or >=, never with =.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PLB_NEVER INT64_MAX /* stands for "no iteration", e.g. there is no LB step */

typedef enum plb_ruling_kind {
    PLB_RULING_NOTHING,
    PLB_RULING_TENTATIVE, /* round `round` opens with T = `iteration` */
    PLB_RULING_FINAL,     /* F = `iteration`; PLB_NEVER: there is no LB step */
    PLB_RULING_BALANCE,   /* all objects wait at AtSync(`iteration`): rebalance */
    PLB_RULING_OVER,      /* all ranks have ended: no more statistics will come */
} plb_ruling_kind_t;

typedef struct plb_ruling {
    plb_ruling_kind_t kind;
    int64_t round, iteration;
} plb_ruling_t;

/* ---- the root ------------------------------------------------------------------------------- */

typedef struct plb_consensus_root {
    int64_t n_ranks;
    int32_t lag;              /* the lag D of rule 5; 0: no lag */
    int64_t seen;             /* the last iteration whose statistics were taken */
    int64_t round;            /* number of rounds opened */
    int64_t tentative, final; /* T of the open round; F; PLB_NEVER: there is none */
} plb_consensus_root_t;
/* A wish (see plb_consensus_root_stats) that leaves the final iteration F as it is. */
#define PLB_WISH_NONE INT64_C(-1)

void plb_consensus_root_init(plb_consensus_root_t *self, int64_t n_ranks, int32_t lag);

/** Whether the root takes statistics.  If not, the root waits for the maximum of its open
 * round. */
bool plb_consensus_root_ready(const plb_consensus_root_t *self);

/** Take the reduced statistics of `iteration` (in order: 1, 2, ...).  n_ended: the number of ranks
 * that had ended.  wish: the iteration at which the trigger wants an LB step (if that is too
 * early, the first possible iteration is taken); PLB_NEVER: the trigger wants no LB step;
 * PLB_WISH_NONE: F stays as it is. */
int plb_consensus_root_stats(plb_consensus_root_t *self, int64_t iteration, int64_t n_ended,
                             int64_t wish, plb_ruling_t *out, plb_err_t *err);

/** Take the reduced maximum of a round.  reach: the greatest of the objects' reaches
 * (plb_consensus_t). */
int plb_consensus_root_maximum(plb_consensus_root_t *self, int64_t round, int64_t reach,
                               plb_ruling_t *out, plb_err_t *err);

/* ---- a rank --------------------------------------------------------------------------------- */

typedef enum plb_action_kind {
    PLB_ACT_STATS,   /* contribute the statistics of the iterations `first` ... `last` */
    PLB_ACT_MAXIMUM, /* contribute `first` to the maximum of round `round` */
    PLB_ACT_RESUME,  /* objects that wait at AtSync may ask again */
    PLB_ACT_BALANCE, /* rebalance at iteration `first`, then call plb_consensus_balanced */
    PLB_ACT_DONE,    /* all ranks have ended: there are no more actions */
} plb_action_kind_t;

typedef struct plb_action {
    plb_action_kind_t kind;
    int64_t round, first, last;
} plb_action_t;

#define PLB_MAX_ACTIONS 8 /* largest number of actions of one call */
/** The actions that a call asks for.  Each call first sets n to 0. */
typedef struct plb_actions {
    int n;
    plb_action_t act[PLB_MAX_ACTIONS];
} plb_actions_t;

typedef enum plb_answer {
    PLB_ANSWER_GO,      /* begin the next iteration */
    PLB_ANSWER_PAUSE,   /* wait, make progress, and ask again after PLB_ACT_RESUME */
    PLB_ANSWER_BALANCE, /* like PLB_ANSWER_PAUSE, at the final iteration F, which may still be
                           raised */
    PLB_ANSWER_END,     /* the iteration that ended was the last one of the run */
} plb_answer_t;

typedef struct plb_consensus {
    int64_t *reach; /* [capacity], owned; the reach of the object in each slot. 2k: the object
                       waits at AtSync(k); 2k - 1: it runs iteration k; negative: the slot is free,
                       and -1 - reach is the next free slot */
    int64_t capacity, free; /* index of the first free slot; `capacity`: there is none */
    int64_t n_objects;      /* number of objects on this rank */
    /* number of objects that have not finished the iteration after `contributed` */
    int64_t n_behind;
    int32_t lag;          /* the lag D of rule 5; 0: no lag */
    int64_t contributed;  /* the last iteration whose statistics this rank has contributed */
    int64_t seen;         /* the last iteration whose reduced statistics this rank has taken */
    int64_t round;        /* the last round to which this rank has contributed */
    int64_t limit, final; /* limit: no object goes beyond this iteration, which is at most `final`;
                             final: F */
    int64_t end;          /* last iteration of this rank; PLB_NEVER: not known */
    bool open;            /* whether round `round` is open: its outcome is not known yet */
    bool balancing, done;
} plb_consensus_t;

/** Begin before iteration 1, without objects.  end: the last iteration of this rank; PLB_NEVER:
 * not known.  Memory: 8 to 16 bytes per object. */
int plb_consensus_init(plb_consensus_t *self, int32_t lag, int64_t end, plb_err_t *err);
void plb_consensus_free(plb_consensus_t *self);

/** Add an object that waits at AtSync(`iteration`); *slot identifies it.  `iteration` must be
 * at least `contributed`, and at most what rules 2 to 5 allow.  If a program runs each rank as a
 * whole, the rank adds one object at iteration 0. */
int plb_consensus_add(plb_consensus_t *self, int64_t iteration, int64_t *slot, plb_actions_t *out,
                      plb_err_t *err);

/** Remove an object, whether it runs or waits. */
int plb_consensus_remove(plb_consensus_t *self, int64_t slot, plb_actions_t *out, plb_err_t *err);

/** Report that a running object has finished its iteration and waits at AtSync.  Then call
 *  plb_consensus_ask. */
int plb_consensus_reached(plb_consensus_t *self, int64_t slot, plb_actions_t *out, plb_err_t *err);

/** Ask whether a waiting object may go on.  After the answer PLB_ANSWER_GO the object runs its
 * next iteration. */
int plb_consensus_ask(plb_consensus_t *self, int64_t slot, plb_answer_t *answer, plb_err_t *err);

/** Return the answer that plb_consensus_ask would give, and change nothing.  For an object that
 * runs, the answer is PLB_ANSWER_GO. */
plb_answer_t plb_consensus_answer(const plb_consensus_t *self, int64_t slot);

/** Set the last iteration of this rank.  No object of the rank may have begun a later
 * iteration. */
int plb_consensus_end(plb_consensus_t *self, int64_t iteration, plb_actions_t *out,
                      plb_err_t *err);

/** Report that this rank has failed: its objects are gone, and it counts as ended, but it still
 * takes part in reductions.  If it has contributed its statistics of the final iteration already,
 * the LB step still takes place, and must not give this rank objects. */
void plb_consensus_fail(plb_consensus_t *self, plb_actions_t *out);

/** Whether this rank counts as ended in its statistics of `iteration`. */
bool plb_consensus_ended(const plb_consensus_t *self, int64_t iteration);

/** Take the root's ruling on the statistics of `iteration`, whose reduction is complete. */
int plb_consensus_stats(plb_consensus_t *self, int64_t iteration, const plb_ruling_t *ruling,
                        plb_actions_t *out, plb_err_t *err);

/** Take the root's ruling on a maximum. */
int plb_consensus_maximum(plb_consensus_t *self, const plb_ruling_t *ruling, plb_actions_t *out,
                          plb_err_t *err);

/** End the LB step that PLB_ACT_BALANCE asked for.  Call it when the objects that migrate have
 * been removed and added. */
int plb_consensus_balanced(plb_consensus_t *self, plb_actions_t *out, plb_err_t *err);
