/* The struct to which the handle of an advisor points. */
#pragma once

#include "base/cores.h"
#include "comm/transport.h"
#include "decide/advisor.h"
#include "decide/steps.h"
#include "lib/handle.h"
#include "lib/plan.h"
#include "lib/settings.h"

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
    bool begun, with_cells; /* plb_lib_advisor_begin was called; steps have cells */
    bool over;              /* whether there are no more steps */
    bool leaves;            /* whether plb_lib_advisor_begin_leaving was called */
    int64_t fingerprint; /* hash of the settings and of with_cells; must be equal on all ranks */
    plb_clock_t clock;   /* the clock of pylb_start and pylb_stop */
    plb_crowd_t crowd;   /* the group of ranks with the fewest cores per rank */
    int64_t step;        /* index (from 0) of the present step */
    int64_t n_observed;  /* number of steps whose results from all ranks were observed */
    const pylb_cells *cells; /* cells of this step, during pylb_advise_cells; else NULL */

    /* What this rank has measured in the present step. */
    double work;      /* seconds of this rank's work */
    int64_t started;  /* ns: time of a pylb_start that no pylb_stop has followed yet; 0: none */
    int64_t mark;     /* ns: when the previous step ended */
    int64_t now;      /* ns: when the present step ended, during the call that ends it */
    int64_t moving;   /* ns: when the redistribution began; 0: none is under way */
    int64_t moved_ns; /* ns: measured time of the redistributions in this step */
    double cost;      /* seconds of these redistributions, measured or passed by the program */
    bool rebalanced;  /* whether this rank has redistributed its data in this step */

    pylb_plan plan; /* plan of the most recent step; plan.ranks is NULL: there is none */
    /* [n_exported] owned: keys of cells that the plan sends away, ascending; NULL: not known */
    int64_t *exported;
    int64_t n_exported;

    bool asks; /* whether the trigger is the program's function: ranks then compare its answers */
    plb_step_row_t *row; /* [room] owned: steps for the run record; n_rows of them are complete */
    int64_t n_rows, room;
} plb_lib_advisor_t;

/** Make an advisor of these ranks, and its handle.  It owns `ranks`, but not after an error. */
PLB_SHARED int plb_lib_advisor_open(plb_transport_t *ranks, pylb_advisor **out, plb_err_t *err);

/** Begin to close an open advisor: if this rank has made steps, tell the other ranks that it makes
 * no more.  Returns at once; call plb_lib_advisor_close next. */
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
    return self->with_cells || self->clock == PLB_CLOCK_WALL;
}

/* A plan calls these before and after each migration, to measure the time; arg: the advisor. */
void plb_lib_begin_moving(void *arg);
void plb_lib_end_moving(void *arg);

/** Begin this rank's last reduction, which says that it makes no more steps.  Does nothing if it
 * has begun already; does not wait. */
int plb_lib_advisor_begin_leaving(plb_lib_advisor_t *self, plb_err_t *err);

/** Print that this rank has waited ten seconds for the other ranks; `arg` is the advisor. */
void plb_lib_say_late(void *arg);

/** Begin to leave, then complete all reductions, even after an error.  Collective. */
int plb_lib_advisor_leave(plb_lib_advisor_t *self, plb_err_t *err);
