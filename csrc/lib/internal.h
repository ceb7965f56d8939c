/* What only the files of the C library use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "comm/transport.h"
#include "decide/advisor.h"
#include "decide/decider.h"
#include "decide/trigger.h"
#include "lib/experience.h"
#include "lib/pylb.h"
#include "model/model.h"
#include "place/strategy.h"

/* The error of the calling thread, and handles, which remember that they were closed. */

/* Marks functions of libpylb that libpylb_mpi uses. */
#define PLB_SHARED __attribute__((visibility("default")))

/** The error of this thread, into which each function of pylb.h writes its message. */
PLB_SHARED plb_err_t *plb_lib_error(void);

typedef enum plb_handle_kind { PLB_HANDLE_ADVISOR = 1, PLB_HANDLE_TRIGGER } plb_handle_kind_t;

/* The struct to which a handle points.  It stays in memory when the handle is closed (`content`
 * NULL), so that a call with a closed handle gives an error. */
typedef struct plb_handle {
    plb_handle_kind_t kind;
    void *content; /* NULL: closed */
    struct plb_handle *next;
} plb_handle_t;

int plb_handle_open(plb_handle_kind_t kind, void *content, plb_handle_t **out, plb_err_t *err);

/** Return the content of a handle; NULL and an error if it is NULL, closed or of another kind. */
void *plb_handle_content(const plb_handle_t *self, plb_handle_kind_t kind, plb_err_t *err);

/* Values of options that a program or the environment sets: numbers, flags, parameters. */

/** Make value[n]: the defaults of params[n], and what a text "name=value name=value" (or NULL)
 * sets.  The caller frees `value` with plb_free, also after an error. */
int plb_option_params(const plb_param_t *params, int n, const char *owner, const char *text,
                      double **value, plb_err_t *err);

/* The options of an advisor, which the program and the environment set before the first step. */

typedef struct plb_settings {
    const plb_strategy_t *strategy; /* NULL: "auto": pylb chooses a strategy for each LB step */
    const plb_trigger_kind_t *trigger;
    /* owned; set at the first step; for "auto", strategy_params are those of its choice */
    double *strategy_params, *trigger_params;
    plb_network_t network;    /* cost of messages; zeros: messages cost nothing */
    int64_t every;            /* steps from one LB step to the next; 0: the trigger decides */
    int64_t lag, seed, steps; /* steps: number of steps of the run; negative: not known */
    int64_t partial;      /* 1: an LB step removes only a part of the imbalance; 0: all of it */
    int64_t ahead;        /* 1: data move during the step after the advice; 0: before it */
    int64_t memory_limit; /* bytes that the cells of a rank may occupy; 0: no limit */
    double verify;        /* fraction of the lent rows that their owner computes again */
    bool off;             /* true: measure only; false: rebalance, too */
    bool strategy_by_environment;
    int pause_if_useless, learn_speeds; /* 1: yes; 0: no; -1: not given */
    plb_clock_t clock;         /* PLB_CLOCK_NONE: the program measures, and passes all seconds */
    char *record, *experience; /* owned paths, or NULL */
    char *of_strategy;         /* owned: the options strategy.X, as "X=value X=value" */
    char *of_trigger;          /* owned: the options trigger.X */
} plb_settings_t;

int plb_settings_init(plb_settings_t *self, plb_err_t *err);
void plb_settings_free(plb_settings_t *self);

/** Set an option; errors: see pylb_advisor_set. */
int plb_settings_set(plb_settings_t *self, const char *option, const char *value, plb_err_t *err);

/** Whether the run begins with what earlier ones have learned, and tells it to later ones. */
static inline bool plb_settings_learn(const plb_settings_t *self)
{
    return self->experience != NULL && strcmp(self->experience, "0") != 0 && !self->off;
}

/** Whether to stop LB steps while they cost more than they save. */
bool plb_settings_gives_up(const plb_settings_t *self);

/* The strategies and triggers that the C library knows: those of pylb's tables, and those
 * that the program has registered. */

/** Find a strategy by name.  PLB_ERR_KEY: the name is unknown; PLB_ERR_MISSING: the C library does
 * not offer it, because it needs another library or is distributed. */
int plb_registered_strategy(const char *name, const plb_strategy_t **out, plb_err_t *err);
int plb_registered_trigger(const char *name, const plb_trigger_kind_t **out, plb_err_t *err);

/** Whether "auto" may choose this strategy, which is one of plb_strategies. */
bool plb_registered_is_selectable(const plb_strategy_t *strategy);

/** Make the internal view of a public snapshot, and check the snapshot (plb_snapshot_check). */
int plb_lib_view(const pylb_snapshot *from, plb_snapshot_t *out, plb_err_t *err);

/** Whether the trigger is a function that the program has registered. */
bool plb_registered_is_own(const plb_trigger_kind_t *kind);

/* A plan: the new rank of each cell of a rank; and the migration of these cells. */

struct pylb_plan {
    struct plb_lib_advisor *lb; /* borrowed; NULL: there is no plan */
    int64_t n;                  /* number of cells of this rank before the migration */
    int32_t *rank;              /* [n] owned: the new rank of each cell */
    plb_route_t route;          /* the order in which the cells are sent */
    int64_t *send, *receive; /* [p + 1] owned: index of the first cell to, and from, each rank */
    int64_t migrations;      /* number of cells of all ranks that move */
    struct plb_move *moves;  /* owned: arrays that are being moved, in the order in which this
                                began */
};

/** Make a plan that moves n cells to rank[n], and gets receive[p] cells from each rank. */
int plb_plan_init(pylb_plan *self, struct plb_lib_advisor *lb, const int32_t *rank, int64_t n,
                  const int64_t *receive, int64_t migrations, plb_err_t *err);

/** Free the plan; arrays on their way arrive first, because MPI uses their memory. */
void plb_plan_free(pylb_plan *self);

/* The struct to which the handle of an advisor points. */

/* What the run record contains for each step, in seconds. */
typedef struct plb_step_row {
    double time, max, mean, idle, utilization, min; /* over all ranks; utilization: a fraction */
    double load;                                    /* load of this rank */
} plb_step_row_t;

typedef struct plb_lib_advisor {
    plb_transport_t *ranks; /* owned */
    plb_settings_t settings;
    plb_trigger_t trigger;
    plb_decider_t decider;
    plb_advisor_t core;
    plb_steps_t steps;
    bool ready; /* whether the environment was read, and options can no longer be set */
    bool begun, with_cells; /* whether plb_lib_advisor_begin was called; steps have cells */
    bool over;              /* whether there are no more steps */
    bool leaves;            /* whether plb_lib_advisor_begin_leaving was called */
    int64_t fingerprint; /* hash of the settings and of with_cells; must be equal on all ranks */
    plb_clock_t clock;   /* the clock of pylb_start and pylb_stop */
    plb_crowd_t crowd;   /* the group of ranks with the fewest cores per rank */
    int64_t step;        /* index (from 0) of the present step */
    int64_t n_phases;    /* number of loads per cell in the steps so far, see pylb_cells; 0: one */
    int64_t n_observed;  /* number of steps of which the results of all ranks were observed */
    const pylb_cells *cells; /* cells of this step, during pylb_advise_cells; else NULL */

    /* What this rank has measured in the present step. */
    double work;      /* seconds of this rank's work, passed by the program or timed */
    bool told;        /* whether the program has passed or timed any work in this step */
    bool passed;      /* whether it has passed seconds, which may include waits for a core */
    int64_t worked;   /* ns, by `clock`: when the previous step or redistribution ended */
    int64_t started;  /* ns: time of a pylb_start that no pylb_stop has followed yet; 0: none */
    int64_t mark;     /* ns: when the previous step ended */
    int64_t delayed;  /* ns: the run delay then */
    int64_t now;      /* ns: when the present step ended, during the call that ends it */
    int64_t moving;   /* ns: when the redistribution began; 0: none is under way */
    bool in_block;    /* between pylb_rebalance_begin and _end, which measure all migrations in
                         between */
    int64_t moved_ns; /* ns: measured time of the redistributions in this step */
    double cost;      /* seconds of these redistributions, measured or passed by the program */
    double hidden;    /* seconds for which this rank has computed while arrays moved */
    int64_t went_on;  /* ns: since when it computes while arrays move; 0: it does not */
    bool rebalanced;  /* whether this rank has redistributed its data in this step */
    bool ahead;       /* whether the data may move until the next step begins: "ahead" */

    pylb_plan plan; /* plan of the most recent step; plan.lb is NULL: there is none */
    /* [n_exported] owned: keys of cells that the plan sends away, ascending; NULL: not known */
    int64_t *exported;
    int64_t n_exported;

    char program[256]; /* on rank 0: the program's entry in an experience file */
    plb_past_t past;   /* what earlier runs have learned */

    bool asks; /* whether the trigger is the program's function: ranks then compare its answers */
    plb_step_row_t *row; /* [room] owned: steps for the run record; n_rows of them are complete */
    int64_t n_rows, room;
} plb_lib_advisor_t;

/** Make an advisor of these ranks, and its handle.  It owns `ranks`, but not after an error. */
PLB_SHARED int plb_lib_advisor_open(plb_transport_t *ranks, pylb_advisor **out, plb_err_t *err);

/** Begin to close an open advisor: if this rank has made steps, announce the end of its steps to
 * the other ranks.  Returns at once; call plb_lib_advisor_close next. */
PLB_SHARED int plb_lib_advisor_begin_close(plb_handle_t *handle, plb_err_t *err);

/** Close an open advisor; called by pylb_advisor_close.  Collective. */
PLB_SHARED int plb_lib_advisor_close(plb_handle_t *handle, plb_err_t *err);

/** Close the handle and free the advisor.  Call this only when its steps have ended, or if not all
 * ranks could open an advisor.  Collective; a rank without one must free its transport instead. */
PLB_SHARED void plb_lib_advisor_drop(plb_handle_t *handle);

/** Return the advisor of a handle.  NULL with an error: the advisor was closed (PLB_ERR_STATE), or
 * the handle is NULL or of another kind (PLB_ERR_VALUE). */
plb_lib_advisor_t *plb_lib_advisor_of(const pylb_advisor *lb, plb_err_t *err);

/* Begin a function of pylb.h: declare `err`, the error of this thread, and `self`, the advisor of
 * the handle lb; return the error if there is none. */
#define PLB_LIB_BEGIN(self, err, lb)                                                              \
    plb_err_t *err = plb_lib_error();                                                             \
    plb_lib_advisor_t *self = plb_lib_advisor_of((lb), err);                                      \
    if (self == NULL) {                                                                           \
        return err->code;                                                                         \
    }

/** Read the environment, which overrides options.  Call this before a step is measured or ends. */
int plb_lib_advisor_ready(plb_lib_advisor_t *self, plb_err_t *err);

/** Make the settings final, and make the decider.  Call this before the first step ends.
 * Collective: a rank that has an error, or that closes its advisor before its first step, must
 * call this, too.  After an error, self->steps.net is NULL if this rank cannot end steps. */
int plb_lib_advisor_begin(plb_lib_advisor_t *self, bool with_cells, plb_err_t *err);

/** Whether pylb measures no time itself: the program measures, and passes all seconds. */
static inline bool plb_lib_measures_nothing(const plb_lib_advisor_t *self)
{
    return self->settings.clock == PLB_CLOCK_NONE;
}

/** Whether loads include waits for a core. */
static inline bool plb_lib_loads_wait(const plb_lib_advisor_t *self)
{
    return self->with_cells || self->clock == PLB_CLOCK_WALL || self->clock == PLB_CLOCK_MPI_WALL;
}

/** Whether pylb measures a rank's work if the program neither times it nor passes its seconds. */
static inline bool plb_lib_measures_work(const plb_lib_advisor_t *self)
{
    return self->clock <= PLB_CLOCK_MPI;
}

/** Begin to measure work.  Called after a step, and after a redistribution within a step. */
static inline void plb_lib_begin_work(plb_lib_advisor_t *self)
{
    self->worked = plb_lib_measures_work(self) ? plb_clock_real_ns(self->clock) : 0;
}

/** Begin this rank's last reduction, which says that it makes no more steps.  Does nothing if it
 * has begun already; does not wait. */
int plb_lib_advisor_begin_leaving(plb_lib_advisor_t *self, plb_err_t *err);

/** Print that this rank has waited ten seconds for the other ranks; `arg` is the advisor. */
void plb_lib_say_late(void *arg);

/** Begin to leave, then complete all reductions, even after an error.  Collective. */
int plb_lib_advisor_leave(plb_lib_advisor_t *self, plb_err_t *err);

/* The decider of an advisor, with its trigger and the strategies from which it chooses. */

/** Make the decider and the trigger of these settings.  If `with_cells` is false, the only
 * strategy is the program's own redistribution.  *self and *trigger must be zero before the call;
 * the caller frees both, also after an error. */
int plb_lib_decider_init(plb_decider_t *self, plb_trigger_t *trigger, const plb_settings_t *s,
                         bool with_cells, int32_t n_ranks, plb_err_t *err);
