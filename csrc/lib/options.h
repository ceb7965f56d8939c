/* Values of options that a program or the environment sets: numbers, flags, parameters. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"

/** Read a whole number from `least` to 2^53. */
int plb_option_count(const char *option, const char *text, int64_t least, int64_t *out,
                     plb_err_t *err);

/** Read "yes" or "no". */
int plb_option_flag(const char *option, const char *text, bool *out, plb_err_t *err);

/** Make value[n], the defaults of params[n].  The caller frees `value` with plb_free. */
int plb_option_defaults(const plb_param_t *params, int n, double **value, plb_err_t *err);

/** Set the parameter `name` of params[n] in value[n].  owner: name of the strategy or trigger, for
 *  messages.  PLB_ERR_KEY: there is no such parameter. */
int plb_option_param(const plb_param_t *params, int n, const char *owner, const char *name,
                     const char *text, double *value, plb_err_t *err);

/** Set parameters from a text "name=value name=value"; NULL: none. */
int plb_option_params(const plb_param_t *params, int n, const char *owner, const char *text,
                      double *value, plb_err_t *err);
