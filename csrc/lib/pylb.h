/* pylb: when to rebalance a parallel program, and where its objects go.  The C interface.
 *
 * Three tiers, as in libCEED:
 *   1. what a program calls: advisor, plan, placement, triggers, metrics;
 *   2. what the author of a strategy or trigger calls: "Strategies and triggers of your own";
 *   3. internals, whose headers are not installed.
 *
 * Link with libpylb (no MPI), or with libpylb_mpi and libpylb; pkg-config: pylb, pylb_mpi.  The
 * functions that take an MPI_Comm are declared if <mpi.h> was included before this header.
 *
 * Units are seconds and bytes.  Ranks and indices count from 0.
 *
 * Errors.  Every function that can fail returns PYLB_OK (0) or a negative code; pylb_error() has
 * the message.  A call that fails changes nothing, unless its comment says so.  No function calls
 * exit or abort.  Compilers warn if a returned code is ignored.  pylb prints a line on standard
 * error only in these cases: a rank has waited ten seconds for the other ranks; ranks share cores;
 * the measured seconds contain waiting; the program did not carry out an advice; nothing has moved
 * in 128 steps although ranks wait for the slowest one.  The last three are printed only once.
 *
 * Handles (pylb_advisor, pylb_trigger).  A call with a closed handle returns PYLB_ERR_STATE.  Use
 * a handle from only one thread at a time.
 *
 * "Collective" means: called by all ranks of the communicator, in the same order. */
#ifndef PYLB_H
#define PYLB_H

#include <stddef.h>
#include <stdint.h>

#define PYLB_VERSION "0.1.0"
#define PYLB_ABI 1 /* the number in the name of the shared library */

#if defined __GNUC__
#define PYLB_API __attribute__((visibility("default")))
#else
#define PYLB_API
#endif

/* Marks a function whose result must be checked. */
#if defined __cplusplus && __cplusplus >= 201703L
#define PYLB_CALL [[nodiscard]] PYLB_API
#elif defined __GNUC__
#define PYLB_CALL PYLB_API __attribute__((warn_unused_result))
#else
#define PYLB_CALL PYLB_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors --------------------------------------------------------------------------------- */

enum pylb_code {
    PYLB_OK = 0,
    PYLB_ERR_NOMEM = -1,       /* out of memory */
    PYLB_ERR_VALUE = -2,       /* a value is out of its domain */
    PYLB_ERR_RANGE = -3,       /* an index is out of range */
    PYLB_ERR_KEY = -4,         /* an unknown or duplicate key, or an unknown name */
    PYLB_ERR_INFEASIBLE = -5,  /* no placement satisfies the constraints */
    PYLB_ERR_FORMAT = -6,      /* a file is damaged or cannot be written */
    PYLB_ERR_MPI = -7,         /* MPI reported an error */
    PYLB_ERR_INTERRUPTED = -8, /* interrupted by a signal */
    PYLB_ERR_CALLBACK = -9,    /* the user's own function failed */
    PYLB_ERR_STATE = -10,      /* called in the wrong state, or the ranks' states differ */
    PYLB_ERR_MISSING = -11,    /* an optional part is absent */
    PYLB_ERR_LIBRARY = -12     /* a library reported an error */
};

/** The message of the most recent call of this thread that failed; empty if none has failed.
 * Valid until the next call that fails. */
PYLB_API const char *pylb_error(void);

/** The meaning of a code, in a few words. */
PYLB_API const char *pylb_error_name(int code);

/** The version of the library that is linked, in the form of PYLB_VERSION. */
PYLB_API const char *pylb_version(void);

/* ---- advisor: when to rebalance, and where to ----------------------------------------------- */

/* The advisor of a code that owns its data and its loop:
 *
 *     pylb_advisor *lb;
 *     pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb);
 *     for (int step = 0; step < n; step++) {
 *         int rebalance;
 *         pylb_start(lb);    // not needed with the clock "mpi"
 *         compute();
 *         pylb_stop(lb);     // not needed with the clock "mpi"
 *         exchange_halos();
 *         pylb_advise(lb, &rebalance);
 *         if (rebalance) {
 *             pylb_rebalance_begin(lb);
 *             redistribute();
 *             pylb_rebalance_end(lb);
 *         }
 *     }
 *     pylb_advisor_close(&lb); */
typedef struct pylb_advisor pylb_advisor;

/** Make an advisor for a program of one rank. */
PYLB_CALL int pylb_advisor_create(pylb_advisor **lb);

#ifdef MPI_VERSION
/** Make an advisor for the ranks of `comm`; it uses a duplicate of `comm`.  Collective.
 * PYLB_ERR_STATE: MPI is not initialised or already finalised, or 64 such advisors are open;
 * PYLB_ERR_VALUE: `comm` is MPI_COMM_NULL. */
PYLB_CALL int pylb_advisor_create_mpi(MPI_Comm comm, pylb_advisor **lb);
#endif

/** Make an advisor for the ranks of a Fortran communicator, given as an integer or as the MPI_VAL
 * of a type(MPI_Comm).  Collective.  Only in libpylb_mpi. */
PYLB_CALL int pylb_advisor_create_fortran(int comm, pylb_advisor **lb);

/** Set an option to the same value on all ranks, before any call that measures or ends a step.
 *
 *  - strategy: where cells go: a name that pylb_strategy_name returns, or "auto" (default), which
 *    chooses one of pylb's own strategies for each LB step; rank 0 computes the placement of all
 *    cells
 *  - trigger: when to rebalance: a name that pylb_trigger_name returns; default "auto"
 *  - every: number of steps from one LB step to the next (instead of a trigger)
 *  - mode: "on" (default), or "off": measure only, and lend nothing
 *  - lag: a rank waits only for ranks that are more than this many steps behind; default 0
 *  - ahead: when data move.  0 (default): before the next step; 1: while the next step computes.
 *    With 1, the call that ends this next step still describes the old cells and gives no new
 *    advice, and the plan is valid until the call after it
 *  - partial: 1: the program's own redistribution removes only a part of the imbalance, e.g. since
 *    data go only to neighbours.  Then pylb_advise advises one in each of several steps, until the
 *    next one would not repay its cost, and judges all of them as one.  Default 0
 *  - steps: number of steps that the program will make, if known
 *  - pause_if_useless: "yes" or "no": whether to make no LB steps while they cost more than they
 *    save; default: yes, unless `every`, the trigger "periodic" or a trigger of your own is used
 *  - learn_speeds: "yes" or "no": whether to learn the ranks' speeds from the times of cells on
 *    different ranks; default: yes if strategy and trigger are "auto" and `lag` is 0
 *  - network: seconds per message and per byte, e.g. "2e-6 1e-10", for strategy "auto"; default
 *    "0 0": only loads count
 *  - clock: what pylb_start and pylb_stop measure.  "wall": elapsed time; "cpu": processor time;
 *    "none": nothing, because the program passes all seconds by pylb_work, loads of cells and
 *    pylb_rebalanced; "mpi": elapsed time without calls of MPI and without the time that the rank
 *    waited for a core because other processes used it (Linux); "auto" (default): "mpi" if it is
 *    available, else the same, but including the calls of MPI.  "mpi" needs libpylb_pmpi, which
 *    `pylb run` loads, or which is linked before MPI (pkg-config: pylb_pmpi); with it, pylb_advise
 *    takes the time since the previous step if the program has measured none in this step
 *  - memory_limit: bytes that the cells of a rank (their `memory`, or else `nbytes`) and the data
 *    that they share may occupy; default: no limit
 *  - seed: seed of strategies that draw random numbers, 0 ... 2^53 - 1; default 0
 *  - record: path of a run record (".json"), written when the advisor is closed
 *  - experience: path of a file, to which pylb_advisor_close adds what this run has learned, for
 *    later runs of the same command on as many ranks; "0" (default): none
 *  - verify: fraction of the rows lent by pylb_share, 0 (default) ... 1, that their owner computes
 *    again, to compare the bytes; a difference gives PYLB_ERR_VALUE
 *  - strategy.X, trigger.X: a parameter X, checked when the first step ends
 *
 * PYLB_STRATEGY, PYLB_TRIGGER, PYLB_MODE, PYLB_RECORD and PYLB_CLOCK in the environment override
 * what the program sets.  A strategy or trigger from the environment has its default parameters.
 *
 * Local.  PYLB_ERR_KEY: unknown option or name; PYLB_ERR_VALUE: a value that the option does not
 * take; PYLB_ERR_MISSING: the strategy is distributed, or needs a library that is absent;
 * PYLB_ERR_STATE: the first step has begun. */
PYLB_CALL int pylb_advisor_set(pylb_advisor *lb, const char *option, const char *value);

/** Close the advisor, and set *lb to NULL; does nothing if *lb is NULL.  Collective: it completes
 * reductions under way, and writes the record.  The advisor is closed even if this fails.  All
 * ranks must close several advisors in the same order, or they may wait for each other forever.
 * Ranks that go on with steps get PYLB_ERR_STATE.  MPI_Finalize closes advisors that are still
 * open, in the same way, in the order in which they were made. */
PYLB_CALL int pylb_advisor_close(pylb_advisor **lb);

/** Get the rank of this process and the number of ranks.  Either pointer may be NULL.  Local. */
PYLB_CALL int pylb_advisor_rank(const pylb_advisor *lb, int *rank, int *n_ranks);

/* Measure the seconds of this rank's work in the step; several measurements are added.  Local.
 * PYLB_ERR_STATE: pylb_start twice without pylb_stop, or pylb_stop without pylb_start. */
PYLB_CALL int pylb_start(pylb_advisor *lb);
PYLB_CALL int pylb_stop(pylb_advisor *lb);

/** Add seconds to this rank's work in the step.  Local. */
PYLB_CALL int pylb_work(pylb_advisor *lb, double seconds);

/** Return the seconds of the clock of pylb_start and pylb_stop, to measure cells: the time of a
 * cell is the difference of two values.  It never decreases, and costs about 30 ns ("cpu": 300).
 * 0 with the clock "none"; NAN if `lb` is not open.  Local. */
PYLB_API double pylb_seconds(pylb_advisor *lb);

/** Compute n rows: in[n], of bytes_in bytes each, to out[n], of bytes_out each.  0: success. */
typedef int (*pylb_rows_fn)(int64_t n, const void *in, void *out, void *user);

/** Compute the rows in[n] of this rank, to out[n].  Where that saves time, another rank computes
 * some of them: rows go there and come back, in order.  So a row of `out` must depend only on the
 * same row of `in`, and `fn` must be the same function on all ranks; n may differ, and may be 0.
 * Collective; the first call learns what rows cost.  The seconds that this rank has computed count
 * as its work (unless the call is between pylb_start and pylb_stop, which measure it).
 *
 * If `fn` returns a code other than 0, all ranks get PYLB_ERR_CALLBACK, and no further call of
 * pylb_share is possible.  If nothing was lent, the other ranks get the error in their next call.
 */
PYLB_CALL int pylb_share(pylb_advisor *lb, int64_t n, int64_t bytes_in, const void *in,
                         int64_t bytes_out, void *out, pylb_rows_fn fn, void *user);

/** End a step.  *rebalance is 1 if the program has to redistribute its data now, else 0; the same
 * on all ranks.  Collective: it begins one nonblocking reduction, and waits for the result of the
 * step that was `lag` steps earlier; by default, this is the present step.  If the arguments of a
 * rank are invalid, or if it called pylb_start without pylb_stop, all ranks get an error
 * (PYLB_ERR_VALUE on the other ranks); then the step has not ended, and all ranks can repeat the
 * call.  PYLB_ERR_STATE: the ranks are in different steps or have different options, a rank has
 * closed its advisor, or, with `lag`, a rank has failed; then there are no more steps, and the
 * advisor can only be closed.  After any other error, the step has ended. */
PYLB_CALL int pylb_advise(pylb_advisor *lb, int *rebalance);

/* Call these before and after the advised redistribution: the time between is its cost.  Local.
 * With the clock "mpi", these calls may be left out after pylb_advise: then the cost is estimated
 * from the lengths of the next two steps. */
PYLB_CALL int pylb_rebalance_begin(pylb_advisor *lb);
PYLB_CALL int pylb_rebalance_end(pylb_advisor *lb);

/** Report that this rank has redistributed its data, and add seconds to the cost.  Local.  In the
 * first step, this tells what an LB step costs: then the trigger "auto" needs no trial.  After a
 * plan for cells with keys, pylb looks at the keys instead: this rank has carried out the plan if
 * at least half of the cells that it had to send to other ranks are gone in the next step. */
PYLB_CALL int pylb_rebalanced(pylb_advisor *lb, double seconds);

/* The cells of a rank.  Call pylb_cells_init, then set what you have.  The arrays belong to the
 * caller; pylb only reads them, during the call.  All ranks must give the same kinds of arrays. */
typedef struct pylb_cells {
    size_t size;        /* size of this struct; set by pylb_cells_init */
    int64_t n;          /* number of cells of this rank */
    const double *load; /* [n * n_components] seconds of each cell in this step; required */
    /* [n] unique over all ranks; a cell keeps its key when it moves.  NULL: the key is made of
     * rank and index, so a cell has another key after it has moved */
    const int64_t *key;
    const int64_t *nbytes;     /* [n] bytes that a migration sends, or NULL */
    const int64_t *memory;     /* [n] bytes that a cell occupies, or NULL */
    const uint8_t *migratable; /* [n] 1: may move, 0: must stay; NULL: all 1 */
    const double *coords;      /* [3 n] coordinates, or NULL */
    int64_t n_edges; /* number of messages (edges) that this rank's cells send in a step */
    const int64_t *src, *dst; /* [n_edges] keys of sender and receiver; they need `key` */
    const double *edge_bytes; /* [n_edges] bytes of each message */
    /* Number of loads of a cell, 1 ... 8: its seconds in successive phases of the step.  All ranks
     * wait for each other at the end of a phase.  `load` has all loads of cell 0, then those of
     * cell 1, and so on.  The number must be the same on all ranks and in all steps. */
    int64_t n_components;
    /* [3 n] for each cell, the data, e.g. a table, that it shares with others: id of these data
     * (-1: it shares none), bytes, and home rank.  If the home of some data is -1, all homes are
     * ignored.  For memory_limit, the bytes count once on each rank.  The program moves these data
     * itself.  NULL: cells share nothing */
    const int64_t *shared;
} pylb_cells;

/** Set every field to "not given", and n_components to 1. */
PYLB_API void pylb_cells_init(pylb_cells *cells);

/** Compute new_load[n_new * n_components], the loads that the cells of a changed mesh are expected
 * to have, from load[n * n_components] (another array), the seconds of the old cells.  So the new
 * cells can be balanced before they have been computed.  Pair i of n_pairs says that the old cell
 * parent[i] became, or became a part of, the new cell child[i]; they count from 0.  A cell that
 * stays is in one pair, a cell that was refined, or merged from several, in several pairs.  If
 * split is 1, a parent's seconds are divided equally among its children, and what a child gets
 * from several parents is added up.  If it is 0, a child takes as long as its parent, or as the
 * mean of several parents, e.g. if each quadrant costs the same at every level.  Local.
 * PYLB_ERR_RANGE: a parent or child is out of range; PYLB_ERR_VALUE: a new cell has no parent, or
 * n_components is not 1 ... 8. */
PYLB_CALL int pylb_inherit(int64_t n, const double *load, int64_t n_components, int64_t n_pairs,
                           const int64_t *parent, const int64_t *child, int split, int64_t n_new,
                           double *new_load);

/* A plan: the new rank of each cell. */
typedef struct pylb_plan pylb_plan;

/** End a step, and get where each cell goes.  *plan is NULL after an error, and if nothing has to
 * move; otherwise it belongs to the advisor and is valid until the next call of this function
 * (with the option "ahead": until the call after that).  The load of this rank is the sum of its
 * cells' loads.  Collective.  End either all steps by this function, or all by pylb_advise.  If a
 * rank has an error, all ranks get one; see pylb_advise.  PYLB_ERR_VALUE: a load or the sum of the
 * loads is not in 0 ... 1e30.  The other arrays are checked only when rank 0 gathers the cells,
 * e.g. for an LB step, and after the step has ended; PYLB_ERR_KEY: two cells have the same key, or
 * an edge has a key that no cell has. */
PYLB_CALL int pylb_advise_cells(pylb_advisor *lb, const pylb_cells *cells, pylb_plan **plan);

/* The next three calls are local.  They return NULL or 0 if `plan` is NULL or belongs to an
 * earlier step. */
/** Return rank[n], the new rank of each cell, in the caller's order. */
PYLB_API const int32_t *pylb_plan_rank(const pylb_plan *plan);
/** Return how many cells this rank will have after the migration. */
PYLB_API int64_t pylb_plan_n(const pylb_plan *plan);
/** Return how many cells of all ranks move. */
PYLB_API int64_t pylb_plan_migrations(const pylb_plan *plan);

/** Get how many cells this rank sends to each rank, send[n_ranks], and gets from each rank,
 * receive[n_ranks].  Cells that stay count in both.  Local; `send` or `receive` may be NULL. */
PYLB_CALL int pylb_plan_counts(const pylb_plan *plan, int64_t *send, int64_t *receive);

/** Move an array with one item for each cell: from[n] has items of `bytes` bytes, to[pylb_plan_n]
 * gets the new items, in the order of the ranks from which they come; items from the same rank
 * keep their order.  Collective, with the same `bytes` on all ranks. */
PYLB_CALL int pylb_plan_migrate(pylb_plan *plan, const void *from, size_t bytes, void *to);

/** Move items of different sizes: cell i has the elements offset[i] ... offset[i + 1] - 1, of
 * `bytes` bytes each.  First call pylb_plan_offsets, which fills new_offset[pylb_plan_n + 1].
 * Then allocate new_offset[pylb_plan_n] elements and call pylb_plan_migrate_sized.  Collective. */
PYLB_CALL int pylb_plan_offsets(pylb_plan *plan, const int64_t *offset, int64_t *new_offset);
PYLB_CALL int pylb_plan_migrate_sized(pylb_plan *plan, const void *from, const int64_t *offset,
                                      size_t bytes, void *to, const int64_t *new_offset);

/** Begin to move an array, and return; pylb_plan_migrate_end waits for all arrays that have begun.
 * In between, the program computes; its calls of MPI also let the data move on.  The program may
 * change the items of cells that stay: `to` gets them as they are at the end.  It must not change
 * the items of cells that leave, nor free `from` and `to`; it may free the offsets.  Call the end
 * before the next step ends (with the option "ahead": the step after that), and before the advisor
 * is closed; a later end, or one without a begin, gives PYLB_ERR_STATE.  Collective: all ranks
 * begin their arrays in the same order. */
PYLB_CALL int pylb_plan_migrate_begin(pylb_plan *plan, const void *from, size_t bytes, void *to);
PYLB_CALL int pylb_plan_migrate_sized_begin(pylb_plan *plan, const void *from,
                                            const int64_t *offset, size_t bytes, void *to,
                                            const int64_t *new_offset);
PYLB_CALL int pylb_plan_migrate_end(pylb_plan *plan);

/* A decision and its result. */
typedef struct pylb_receipt {
    int64_t iteration;        /* the step after which the decision was made */
    int32_t rebalanced;       /* 1: an LB step took place; 0: the decision was against one */
    const char *strategy;     /* strategy of the LB step, or "" */
    const char *reason;       /* the reason of the decision, in words */
    double max, mean;         /* seconds: largest and mean load of the ranks in that step */
    double before, predicted; /* max/mean before the LB step; expected after it (NAN: unknown) */
    double cost;              /* seconds of the LB step; 0: there was none */
    double gain;              /* seconds that the LB step has saved so far; NAN: not known yet */
    int64_t migrations;       /* number of cells that moved */
    /* Seconds of the slowest rank to gather the cells, to place them and to move them: together
     * the time for which the LB step stopped the program; extra time of the first steps after it;
     * the longest time for which a rank computed while cells moved.  NAN: unknown, or none. */
    double seconds_statistics, seconds_strategy, seconds_migration, seconds_warm_up,
        seconds_hidden;
} pylb_receipt;

/** Get the number of decisions and of LB steps so far.  Either pointer may be NULL.  Local.  A run
 * without a record keeps and counts at most 4096 decisions: the earliest and the most recent. */
PYLB_CALL int pylb_advisor_counts(const pylb_advisor *lb, int64_t *decisions, int64_t *lb_steps);

/** Get the receipt of decision i (from 0).  Its texts are valid while `lb` is open.  Local. */
PYLB_CALL int pylb_advisor_receipt(pylb_advisor *lb, int64_t i, pylb_receipt *receipt);

/* ---- placement ------------------------------------------------------------------------------ */

/* The load database: objects of all ranks.  Call pylb_snapshot_init, then set what you have. */
typedef struct pylb_snapshot {
    size_t size; /* size of this struct; set by pylb_snapshot_init */
    int64_t n_objects;
    int32_t n_ranks;
    const double *load;        /* [n_objects] seconds on a rank of speed 1; required */
    const int32_t *rank;       /* [n_objects] present rank of each object; required */
    const int64_t *key;        /* [n_objects] a number for each object, or NULL */
    const int64_t *nbytes;     /* [n_objects] bytes that a migration sends, or NULL */
    const int64_t *memory;     /* [n_objects] bytes of memory of each object, or NULL */
    const uint8_t *migratable; /* [n_objects] 1: may migrate, 0: must stay; NULL: all 1 */
    const double *coords;      /* [3 n_objects] coordinates, or NULL */
    int64_t n_edges;           /* number of edges: messages of a step from object to object */
    const int32_t *edge_src, *edge_dst; /* [n_edges] indices of objects */
    /* [n_edges] bytes and number of messages of each edge; edge_messages NULL: one message */
    const double *edge_bytes, *edge_messages;
    const double *speed;         /* [n_ranks] speed of each rank; NULL: all speeds are 1 */
    const double *background;    /* [n_ranks] seconds of other work, or NULL */
    const int64_t *memory_limit; /* [n_ranks] bytes, or NULL: no limits */
    const int32_t *node;         /* [n_ranks] node of each rank, or NULL */
    const double *near; /* [2] cost of a message, and of a byte, between two ranks of a node, as
                           fractions of the cost between nodes (needs `node`); NULL: 1 and 1 */
    /* [n_ranks] bytes that all ranks of a rank's node may use together, or NULL: no limits */
    const int64_t *node_memory_limit;
} pylb_snapshot;

/** Set every field to "not given". */
PYLB_API void pylb_snapshot_init(pylb_snapshot *snapshot);

/** Compute rank[n_objects], the new rank of each object; it may be the snapshot's own array
 * `rank`.  strategy: a name that pylb_strategy_name returns, or "auto": the one that an advisor
 * would choose for its first LB step.  params: "name=value name=value"; NULL: defaults.  "auto"
 * has parameters for the choice (imbalance, utilization, communication, tolerance, dearer, again),
 * and alpha and beta, the seconds per message and per byte (defaults: 2e-6 and 1e-10).  Local. */
PYLB_CALL int pylb_place(const pylb_snapshot *snapshot, const char *strategy, const char *params,
                         uint64_t seed, int32_t *rank);

/** Compute time[n_ranks]: seconds of each rank in a step with the objects on rank[n_objects]
 * (NULL: on their present ranks).  Local. */
PYLB_CALL int pylb_rank_times(const pylb_snapshot *snapshot, const int32_t *rank, double *time);

typedef struct pylb_metrics {
    double max, mean, min, std; /* seconds */
    double max_over_mean;       /* max/mean; 1 is perfect */
    double percent;             /* 100 (max/mean - 1) */
    double efficiency;          /* mean/max */
    double idle_mean, idle_max; /* seconds: mean over the ranks of max - time; max - min */
} pylb_metrics;

/** Compute the imbalance metrics of time[n], n >= 1.  Local. */
PYLB_CALL int pylb_metrics_of(const double *time, int32_t n, pylb_metrics *metrics);

/** Return the name of strategy i = 0, 1, ..., or what it does; NULL after the last strategy. */
PYLB_API const char *pylb_strategy_name(int i);
PYLB_API const char *pylb_strategy_help(int i);

/* ---- triggers ------------------------------------------------------------------------------- */

/* A trigger says when to rebalance.  These calls are for programs without an advisor, which reduce
 * the ranks' statistics themselves. */
typedef struct pylb_trigger pylb_trigger;

/** Make a trigger; `params` as in pylb_place. */
PYLB_CALL int pylb_trigger_create(const char *name, const char *params, pylb_trigger **trigger);

/** Close the trigger, and set *trigger to NULL; does nothing if *trigger is NULL. */
PYLB_CALL int pylb_trigger_close(pylb_trigger **trigger);

/** Set what is known before the run: n, the number of iterations (negative: unknown), and the
 * expected seconds of an LB step (NAN: unknown). */
PYLB_CALL int pylb_trigger_expect(pylb_trigger *trigger, int64_t n, double cost);

/** Observe an iteration (from 0): maximum and mean of the ranks' loads in seconds.  *rebalance is
 * 1 if the program should rebalance now, else 0.  PYLB_ERR_CALLBACK: a trigger of your own has
 * failed; the iteration counts as observed. */
PYLB_CALL int pylb_trigger_observe(pylb_trigger *trigger, int64_t iteration, double max,
                                   double mean, int *rebalance);

/** Report an LB step at the end of `iteration`: its seconds, and max/mean after it. */
PYLB_CALL int pylb_trigger_balanced(pylb_trigger *trigger, int64_t iteration, double cost,
                                    double max_over_mean);

/** Return the reason of the most recent answer, in words; NULL if the handle is invalid. */
PYLB_API const char *pylb_trigger_reason(const pylb_trigger *trigger);

/** Return the name of trigger i = 0, 1, ..., or what it does; NULL after the last trigger. */
PYLB_API const char *pylb_trigger_name(int i);
PYLB_API const char *pylb_trigger_help(int i);

/* ---- strategies and triggers of your own ---------------------------------------------------- */

/** A strategy: writes rank[n_objects], the new rank of each object; returns 0, or another number
 * if it has failed.  The same snapshot and seed must give the same placement. */
typedef int (*pylb_strategy_fn)(const pylb_snapshot *snapshot, uint64_t seed, int32_t *rank,
                                void *user);

/** Register a strategy for this process under a new name of printable ASCII characters without
 * quotes and backslashes, which is copied.  Do not call this while other threads use the library.
 */
PYLB_CALL int pylb_strategy_register(const char *name, pylb_strategy_fn strategy, void *user);

/* What has happened since the last LB step, for a trigger of your own.  The letters
 * are those of Boulmier 2021, who calls n tau. */
typedef struct pylb_cycle {
    int64_t n;        /* number of iterations */
    double u, U;      /* seconds: max - mean of this iteration; sum over all n iterations */
    double max, mean; /* seconds: largest and mean load of this iteration */
    double cost;      /* seconds of an LB step; NAN: not known */
} pylb_cycle;

/** A trigger: returns 1 to rebalance, 0 to go on, another number if it has failed.  It must return
 * the same on all ranks, so it may use only the cycle and `user`.  In each step the ranks of an
 * advisor compare their answers.  If the answers differ, or if the trigger has failed on a rank,
 * all ranks get the error, and there are no more steps. */
typedef int (*pylb_trigger_fn)(const pylb_cycle *cycle, void *user);

/** Register a trigger, like pylb_strategy_register. */
PYLB_CALL int pylb_trigger_register(const char *name, pylb_trigger_fn trigger, void *user);

#ifdef __cplusplus
}
#endif
#endif
