/* Repeated measurements of the same parts: their mean times, the noise, which ranks have changed;
 * and whether other parts would be better by more than that noise.
 *
 * The mean of several measurements of the same parts counts.  A time that is far off means that
 * the processor has changed, or an interruption; the next measurement decides.
 *
 * A state machine without input or output.
 */
#ifndef PLB_MEASURE_REPEATS_H
#define PLB_MEASURE_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct plb_repeats {
    int32_t p;
    double *mean;  /* [p] seconds: the means */
    int64_t *n;    /* [p] measurements in it */
    double *doubt; /* [p] the sign of a deviation that may be a change, or 0 */
    double *off;   /* ring buffer of relative deviations, and scratch to sort them */
    int64_t n_off; /* ever */
} plb_repeats_t;

int plb_repeats_init(plb_repeats_t *self, int32_t p, plb_err_t *err);
void plb_repeats_free(plb_repeats_t *self);

/** Start again: the ranks have other parts from now on. */
void plb_repeats_begin(plb_repeats_t *self);

/** Relative deviation of a measurement, by the median; 0 if unknown. */
double plb_repeats_noise(plb_repeats_t *self);

/** By how much, relatively, the longest time may be too long by chance. */
double plb_repeats_by_chance(plb_repeats_t *self);

/** Enter a measurement of the ranks that are busy; return whether no rank is in doubt. */
bool plb_repeats_observe(plb_repeats_t *self, const double *seconds, const bool *busy);

/** Enter times that were predicted from almost equal parts, beside the measured ones. */
void plb_repeats_predicted(plb_repeats_t *self, const double *seconds, const double *expected,
                           const bool *which);

typedef enum plb_division {
    PLB_DIVIDE_STAY, /* as they are */
    PLB_DIVIDE_BOLD, /* by the models */
    PLB_DIVIDE_SAFE, /* by models in which a rank pages with more rows than it has held */
} plb_division_t;

/* Seconds of the slowest rank. */
typedef struct plb_prospects {
    double now;         /* with the present parts, as measured */
    double bold;        /* with the bold parts, by the models */
    double bold_paging; /* with the bold parts, if ranks page at once */
    double safe;        /* with the safe parts, if ranks page at once */
    double tolerance; /* relative difference of times that counts as balanced (Clarke's epsilon) */
} plb_prospects_t;

/** Choose the parts: the present ones, unless others are better by more than chance, and, if a
 * rank might page, by more than the tolerance. */
plb_division_t plb_repeats_choose(plb_repeats_t *self, const plb_prospects_t *prospects);

#endif
