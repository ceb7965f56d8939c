/* The strategies and triggers that the C library knows: those of pylb's tables, and those
 * that the program has registered. */
#pragma once

#include "decide/trigger.h"
#include "place/strategy.h"

/** Find a strategy by name.  PLB_ERR_KEY: the name is unknown; PLB_ERR_MISSING: the C library does
 *  not offer it, because it needs another library or is distributed. */
int plb_registered_strategy(const char *name, const plb_strategy_t **out, plb_err_t *err);
int plb_registered_trigger(const char *name, const plb_trigger_kind_t **out, plb_err_t *err);

/** Whether "auto" may choose this strategy, which is one of plb_strategies. */
bool plb_registered_is_selectable(const plb_strategy_t *strategy);

/** Whether the trigger is a function that the program has registered. */
bool plb_registered_is_own(const plb_trigger_kind_t *kind);
