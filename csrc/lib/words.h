/* Words that a program or the environment sets: names, numbers, parameters. */
#ifndef PLB_LIB_WORDS_H
#define PLB_LIB_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"

/** A number from a text.  PLB_ERR_VALUE: it is none, or there is more. */
int plb_word_number(const char *word, const char *text, double *out, plb_err_t *err);

/** A whole number of `least` ... 2^53. */
int plb_word_count(const char *word, const char *text, int64_t least, int64_t *out,
                   plb_err_t *err);

/** "yes" or "no". */
int plb_word_flag(const char *word, const char *text, bool *out, plb_err_t *err);

/** value[n] of a table, all at their defaults (NULL table: n is 0).  Owned. */
int plb_word_defaults(const plb_param_t *params, int n, double **value, plb_err_t *err);

/** Set the parameter `name` of `owner`, a strategy or a trigger.  PLB_ERR_KEY: it has none such.
 */
int plb_word_param(const plb_param_t *params, int n, const char *owner, const char *name,
                   const char *text, double *value, plb_err_t *err);

/** Set the parameters of "name=value name=value"; NULL: none. */
int plb_word_params(const plb_param_t *params, int n, const char *owner, const char *text,
                    double *value, plb_err_t *err);

#endif
