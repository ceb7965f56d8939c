/* pylb: when to rebalance a parallel program, and where its objects go.  The C interface.
 *
 * Three tiers, as in libCEED:
 *   1. what a program calls: advisor, plan, placement, triggers, metrics;
 *   2. what an author of a strategy or a trigger calls: "Strategies and triggers of your own";
 *   3. internals, whose headers are not installed.
 *
 * Link with libpylb (no MPI), or with libpylb_mpi and libpylb; pkg-config: pylb, pylb_mpi.
 * The functions that take an MPI_Comm are declared if <mpi.h> was included before this header.
 *
 * Units are seconds and bytes.  Ranks and indices count from 0.
 *
 * Errors.  Every function that can fail returns PYLB_OK (0) or a negative code, and changes
 * nothing unless it says otherwise; pylb_error() has the message.  No function calls exit or
 * abort, and none prints, but for one line on standard error where a rank has waited for the
 * others for ten seconds.  Compilers warn where a code is ignored.
 *
 * Handles (pylb_advisor, pylb_trigger) are opaque.  A handle that was closed is an error
 * (PYLB_ERR_STATE) in every call, not undefined behaviour.  A handle is used by one thread at a
 * time.
 *
 * "Collective" means: called by all ranks of the communicator, in the same order.
 */
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

/* A function whose result must be looked at. */
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
    PYLB_ERR_INTERRUPTED = -8, /* interrupted */
    PYLB_ERR_CALLBACK = -9,    /* a function of the user's own failed */
    PYLB_ERR_STATE = -10,      /* called in the wrong state, or by other ranks in another one */
    PYLB_ERR_MISSING = -11,    /* an optional part is absent */
    PYLB_ERR_LIBRARY = -12     /* a library reported an error */
};

/** The message of the last call of this thread that failed; empty before any.  Valid until the
 *  next call that fails. */
PYLB_API const char *pylb_error(void);

/** What a code means, in a few words. */
PYLB_API const char *pylb_error_name(int code);

/** The version of the library that is linked, as PYLB_VERSION. */
PYLB_API const char *pylb_version(void);

/* ---- advisor: when to rebalance, and where to ----------------------------------------------- */

/* The advisor of a code that owns its data and its loop:
 *
 *     pylb_advisor *lb;
 *     pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb);
 *     for (int step = 0; step < n; step++) {
 *         int rebalance;
 *         pylb_start(lb);
 *         compute();
 *         pylb_stop(lb);
 *         exchange_halos();
 *         pylb_advise(lb, &rebalance);
 *         if (rebalance) {
 *             pylb_rebalance_begin(lb);
 *             redistribute();
 *             pylb_rebalance_end(lb);
 *         }
 *     }
 *     pylb_advisor_close(&lb);
 */
typedef struct pylb_advisor pylb_advisor;

/** An advisor of a program of one rank. */
PYLB_CALL int pylb_advisor_create(pylb_advisor **lb);

#ifdef MPI_VERSION
/** An advisor of the ranks of `comm`; works on a duplicate of its own.  Collective.
 *  PYLB_ERR_STATE: MPI is not initialised or already finalised; PYLB_ERR_VALUE: the communicator
 *  is MPI_COMM_NULL. */
PYLB_CALL int pylb_advisor_create_mpi(MPI_Comm comm, pylb_advisor **lb);
#endif

/** The same with a communicator of Fortran (an integer, or the MPI_VAL of a type(MPI_Comm)).
 *  Collective.  Only in libpylb_mpi. */
PYLB_CALL int pylb_advisor_create_fortran(int comm, pylb_advisor **lb);

/** Set a word before the first step; the same on all ranks.
 *
 *      strategy    where cells go: a name of pylb_strategy_name, or "auto" (default): chosen
 *                  for each LB step among those of pylb's own
 *      trigger     when to rebalance: a name of pylb_trigger_name; default "auto"
 *      every       rebalance after every so many steps (instead of a trigger)
 *      mode        "on" (default), or "off": measure only
 *      lag         a rank waits only for the statistics of so many steps ago; default 0
 *      steps       number of steps that the program will make, if it is known
 *      give_up     "yes" or "no": stop LB steps while they cost more than they save; default yes,
 *                  unless `every` says when to rebalance
 *      unlike      "yes" or "no": the ranks may be of different speeds, learn them from where
 *                  cells have been; default: yes where pylb chooses both the strategy and when
 *                  to rebalance, and `lag` is 0
 *      network     seconds per message and per byte, e.g. "2e-6 1e-10", for strategy "auto";
 *                  default "0 0": only loads count
 *      clock       of pylb_start and pylb_stop: "auto" (default), elapsed time without the time
 *                  that the rank waited for a core because other processes had it (Linux);
 *                  "wall", elapsed time; "cpu", processor time; "none": nothing is measured
 *                  (pylb_start and pylb_stop count 0), the program tells all seconds by
 *                  pylb_work, the loads of cells and pylb_rebalanced
 *      seed        of strategies that draw random numbers; default 0
 *      record      path of a run record (".json"), written when the advisor is closed
 *      strategy.X, trigger.X   the parameter X of the strategy or of the trigger
 *
 *  PYLB_STRATEGY, PYLB_TRIGGER, PYLB_MODE, PYLB_RECORD and PYLB_CLOCK in the environment override
 *  what the program says.
 *
 *  Local.  PYLB_ERR_KEY: no such word or name; PYLB_ERR_VALUE: a value that the word does not
 *  take; PYLB_ERR_STATE: after the first step. */
PYLB_CALL int pylb_advisor_set(pylb_advisor *lb, const char *word, const char *value);

/** Close: sets *lb to NULL (NULL is allowed before).  Collective; completes what is under way, and
 *  writes the record.  If other ranks go on, they get PYLB_ERR_STATE.  A program that does not
 *  close an advisor before MPI_Finalize has it closed there, without a record. */
PYLB_CALL int pylb_advisor_close(pylb_advisor **lb);

/** The rank of this process and the number of ranks.  Local. */
PYLB_CALL int pylb_advisor_rank(const pylb_advisor *lb, int *rank, int *n_ranks);

/* The seconds of this rank's work in the step: either time it, in one or more parts that add up,
 * or tell it.  Local.  PYLB_ERR_STATE: start within start, stop without start. */
PYLB_CALL int pylb_start(pylb_advisor *lb);
PYLB_CALL int pylb_stop(pylb_advisor *lb);

/** Add seconds to this rank's work in the step.  Local. */
PYLB_CALL int pylb_work(pylb_advisor *lb, double seconds);

/** End a step: when to rebalance.  *rebalance is 1 where the program is to redistribute its data
 *  now, else 0; the same on all ranks.  Collective: one nonblocking reduction; waits for it, or
 *  for that of `lag` steps ago.  PYLB_ERR_STATE: the ranks are in different steps, a rank has left
 *  or failed; then there are no more steps, and the advisor can only be closed. */
PYLB_CALL int pylb_advise(pylb_advisor *lb, int *rebalance);

/* Around the redistribution that was advised: its time is what it cost.  Local. */
PYLB_CALL int pylb_rebalance_begin(pylb_advisor *lb);
PYLB_CALL int pylb_rebalance_end(pylb_advisor *lb);

/** This rank has redistributed: add so many seconds to what it cost, instead of begin and end or
 *  besides.  Local. */
PYLB_CALL int pylb_rebalanced(pylb_advisor *lb, double seconds);

/* The cells of a rank.  Call pylb_cells_init, then set what you have; every array belongs to the
 * caller and is only read during the call.  The same arrays are given on all ranks. */
typedef struct pylb_cells {
    size_t size;              /* set by pylb_cells_init */
    int64_t n;                /* cells of this rank */
    const double *load;       /* [n] seconds of each in this step; required */
    const int64_t *key;       /* [n] a number of its own for each cell of all ranks, or NULL: then
                               * cells are numbered by rank and place */
    const int64_t *bytes;     /* [n] that a migration sends, or NULL */
    const int64_t *memory;    /* [n] that a cell occupies, or NULL */
    const uint8_t *fixed;     /* [n] 1: the cell must stay; or NULL */
    const double *coords;     /* [3 n] coordinates, or NULL */
    int64_t n_edges;          /* messages of this rank's cells in a step; they need keys */
    const int64_t *src, *dst; /* [n_edges] keys */
    const double *edge_bytes; /* [n_edges] */
} pylb_cells;

/** Set every field to "none". */
PYLB_API void pylb_cells_init(pylb_cells *cells);

/* Where each cell goes. */
typedef struct pylb_plan pylb_plan;

/** End a step: when to rebalance and where to.  *plan is NULL where nothing is to move; otherwise
 * it belongs to the advisor and is valid until the next step.  The load of this rank is the sum of
 *  its cells' loads.  Collective; every step of an advisor with cells, or every step without.
 *  PYLB_ERR_VALUE, PYLB_ERR_KEY: a load is negative or NaN, a key is twice there; on all ranks. */
PYLB_CALL int pylb_advise_cells(pylb_advisor *lb, const pylb_cells *cells, pylb_plan **plan);

/** rank[n]: the new rank of each cell, in the caller's order.  NULL for a plan of NULL.  Local. */
PYLB_API const int32_t *pylb_plan_rank(const pylb_plan *plan);

/** How many cells this rank will have; 0 for a plan of NULL.  Local. */
PYLB_API int64_t pylb_plan_n(const pylb_plan *plan);

/** How many cells of all ranks move; 0 for a plan of NULL.  Local. */
PYLB_API int64_t pylb_plan_migrations(const pylb_plan *plan);

/** count[n_ranks]: how many cells this rank sends to each rank, and gets from each; those that
 * stay count in both.  Local; either may be NULL. */
PYLB_CALL int pylb_plan_counts(const pylb_plan *plan, int64_t *send, int64_t *receive);

/** Move an array of items, one for each cell: from[n] items of `bytes` each, to[pylb_plan_n]
 * items. They arrive in order of the ranks that they come from, and of the cells there.
 * Collective, with the same `bytes`. */
PYLB_CALL int pylb_plan_migrate(pylb_plan *plan, const void *from, size_t bytes, void *to);

/** Move items of different sizes: cell i has the elements offset[i] ... offset[i + 1] - 1 of
 *  `bytes` each.  First pylb_plan_offsets, which fills new_offset[pylb_plan_n + 1]; then allocate
 *  new_offset[pylb_plan_n] elements and call pylb_plan_migrate_sized.  Collective. */
PYLB_CALL int pylb_plan_offsets(pylb_plan *plan, const int64_t *offset, int64_t *new_offset);
PYLB_CALL int pylb_plan_migrate_sized(pylb_plan *plan, const void *from, const int64_t *offset,
                                      size_t bytes, void *to, const int64_t *new_offset);

/* What was decided, and what came of it. */
typedef struct pylb_receipt {
    int64_t iteration;        /* the step after which it was decided */
    int32_t rebalanced;       /* 1: an LB step took place; 0: the advisor held back */
    const char *strategy;     /* of the LB step, or "" */
    const char *reason;       /* in words */
    double max, mean;         /* seconds: loads of the ranks in that step */
    double before, predicted; /* max/mean before the LB step and expected after it; NAN: unknown */
    double cost;              /* seconds of the LB step; 0 without one */
    double gain;              /* seconds that it has saved so far; NAN: not known yet */
    int64_t migrations;       /* cells that moved */
} pylb_receipt;

/** How many decisions there were, and how many LB steps.  Either may be NULL.  Local. */
PYLB_CALL int pylb_advisor_counts(const pylb_advisor *lb, int64_t *decisions, int64_t *lb_steps);

/** Decision i of them.  Its texts are valid as long as the advisor is open.  Local. */
PYLB_CALL int pylb_advisor_receipt(pylb_advisor *lb, int64_t i, pylb_receipt *receipt);

/* ---- placement ------------------------------------------------------------------------------ */

/* The load database: all objects of all ranks.  Call pylb_snapshot_init, then set what you have.
 */
typedef struct pylb_snapshot {
    size_t size; /* set by pylb_snapshot_init */
    int64_t n_objects;
    int32_t n_ranks;
    const double *load;                 /* [n_objects] seconds on a rank of speed 1; required */
    const int32_t *rank;                /* [n_objects] where each is now; required */
    const int64_t *key;                 /* [n_objects] or NULL */
    const int64_t *bytes;               /* [n_objects] that a migration sends, or NULL */
    const int64_t *memory;              /* [n_objects] that it occupies, or NULL */
    const uint8_t *migratable;          /* [n_objects] 0: it must stay; or NULL: all may migrate */
    const double *coords;               /* [3 n_objects] or NULL */
    int64_t n_edges;                    /* messages of a step, from object to object */
    const int32_t *edge_src, *edge_dst; /* [n_edges] indices of objects */
    const double *edge_bytes, *edge_messages; /* [n_edges]; messages may be NULL: one each */
    const double *speed;                      /* [n_ranks] or NULL: 1 */
    const double *background;                 /* [n_ranks] seconds beside the objects, or NULL */
    const int64_t *memory_limit;              /* [n_ranks] or NULL */
    const int32_t *node;                      /* [n_ranks] node of each rank, or NULL */
} pylb_snapshot;

/** Set every field to "none". */
PYLB_API void pylb_snapshot_init(pylb_snapshot *snapshot);

/** Place the objects: rank[n_objects].  `params`: "name=value name=value", or NULL for defaults.
 *  Local. */
PYLB_CALL int pylb_place(const pylb_snapshot *snapshot, const char *strategy, const char *params,
                         uint64_t seed, int32_t *rank);

/** time[n_ranks]: seconds of each rank in a step with the objects on rank[n_objects] (NULL: where
 *  they are).  Local. */
PYLB_CALL int pylb_rank_times(const pylb_snapshot *snapshot, const int32_t *rank, double *time);

typedef struct pylb_metrics {
    double max, mean, min, std; /* seconds */
    double max_over_mean;       /* 1 is perfect */
    double percent;             /* 100 (max/mean - 1) */
    double efficiency;          /* mean/max */
    double idle_mean, idle_max; /* seconds: mean of max - time; max - min */
} pylb_metrics;

/** Metrics of imbalance of time[n], n >= 1.  Local. */
PYLB_CALL int pylb_metrics_of(const double *time, int32_t n, pylb_metrics *metrics);

/** Name of the i-th strategy, and what it does; NULL behind the last one. */
PYLB_API const char *pylb_strategy_name(int i);
PYLB_API const char *pylb_strategy_help(int i);

/* ---- triggers ------------------------------------------------------------------------------- */

/* When to rebalance, for a program that reduces its own statistics. */
typedef struct pylb_trigger pylb_trigger;

/** `params` as in pylb_place. */
PYLB_CALL int pylb_trigger_create(const char *name, const char *params, pylb_trigger **trigger);

/** Close: sets *trigger to NULL (NULL is allowed before). */
PYLB_CALL int pylb_trigger_close(pylb_trigger **trigger);

/** What is known before the run: number of iterations (negative: not known), expected seconds of
 * an LB step (NAN: not known). */
PYLB_CALL int pylb_trigger_expect(pylb_trigger *trigger, int64_t n, double cost);

/** An iteration is over: maximum and mean of the ranks' loads in seconds.  *rebalance: 1 or 0. */
PYLB_CALL int pylb_trigger_observe(pylb_trigger *trigger, int64_t iteration, double max,
                                   double mean, int *rebalance);

/** An LB step took place after `iteration`, cost so many seconds, and left max/mean. */
PYLB_CALL int pylb_trigger_balanced(pylb_trigger *trigger, int64_t iteration, double cost,
                                    double max_over_mean);

/** Why the last answer was what it was.  NULL for a trigger that is none. */
PYLB_API const char *pylb_trigger_reason(const pylb_trigger *trigger);

/** Name of the i-th trigger, and what it does; NULL behind the last one. */
PYLB_API const char *pylb_trigger_name(int i);
PYLB_API const char *pylb_trigger_help(int i);

/* ---- strategies and triggers of your own ---------------------------------------------------- */

/** A strategy: writes rank[n_objects]; returns 0, or another number if it has failed.  It must
 *  give the same answer for the same snapshot and seed. */
typedef int (*pylb_strategy_fn)(const pylb_snapshot *snapshot, uint64_t seed, int32_t *rank,
                                void *user);

/** Register a strategy under a name that no other has; then it is a strategy like the others, in
 *  this process.  The name is copied.  Not while other threads use the library. */
PYLB_CALL int pylb_strategy_register(const char *name, pylb_strategy_fn strategy, void *user);

/* What has happened since the last LB step (Boulmier 2021, tau, u and U). */
typedef struct pylb_cycle {
    int64_t n;        /* iterations */
    double u, U;      /* seconds: max - mean of the last one, and the sum of these */
    double max, mean; /* seconds, of the last iteration */
    double cost;      /* seconds of an LB step, NAN: not known */
} pylb_cycle;

/** A trigger: returns 1 to rebalance, 0 to go on, another number if it has failed.  The same on
 *  all ranks, so it must depend on nothing but the cycle and `user`. */
typedef int (*pylb_trigger_fn)(const pylb_cycle *cycle, void *user);

/** Register a trigger, like pylb_strategy_register. */
PYLB_CALL int pylb_trigger_register(const char *name, pylb_trigger_fn trigger, void *user);

#ifdef __cplusplus
}
#endif
#endif
