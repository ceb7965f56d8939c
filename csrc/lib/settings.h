/* The options of an advisor, which the program and the environment set before the first step. */
#pragma once

#include "base/clock.h"
#include "decide/trigger.h"
#include "model/cost.h"
#include "place/strategy.h"

typedef struct plb_settings {
    const plb_strategy_t *strategy; /* NULL: "auto": pylb chooses a strategy for each LB step */
    const plb_trigger_kind_t *trigger;
    /* owned; set by plb_settings_close; for strategy "auto": parameters of select.h */
    double *strategy_params, *trigger_params;
    plb_network_t network;    /* cost of messages; zeros: messages cost nothing */
    int64_t every;            /* steps from one LB step to the next; 0: the trigger decides */
    int64_t lag, seed, steps; /* steps: number of steps of the run; negative: not known */
    bool off;                 /* true: measure only; false: rebalance, too */
    bool strategy_by_environment;
    int give_up, unlike;    /* 1: yes; 0: no; -1: not given */
    plb_clock_t clock;      /* PLB_CLOCK_NONE: the program measures, and passes all seconds */
    char *record;           /* owned path, or NULL */
    char **option, **value; /* [n] owned: "strategy.X" or "trigger.X"; its value; in call order */
    int n;
} plb_settings_t;

int plb_settings_init(plb_settings_t *self, plb_err_t *err);
void plb_settings_free(plb_settings_t *self);

/** Set an option; errors: see pylb_advisor_set. */
int plb_settings_set(plb_settings_t *self, const char *option, const char *value, plb_err_t *err);

/** Let the environment override options.  A strategy or trigger from the environment has its
 * default parameters.  Call this before the first step. */
int plb_settings_environment(plb_settings_t *self, plb_err_t *err);

/** Check and set the parameters.  Call this after all options have been set. */
int plb_settings_close(plb_settings_t *self, plb_err_t *err);

/** Whether to stop LB steps while they cost more than they save. */
bool plb_settings_gives_up(const plb_settings_t *self);

/** Whether to learn the ranks' speeds, by the same rule as Python's Advisor. */
bool plb_settings_learns(const plb_settings_t *self);

/** Whether to check that the last LB step achieved what it predicted (promise.h), as in Python. */
bool plb_settings_watches(const plb_settings_t *self);

/** Return a fingerprint, 0 or more, of the settings that must be the same on all ranks. */
int64_t plb_settings_fingerprint(const plb_settings_t *self);
