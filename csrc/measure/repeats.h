/* Judges repeated measurements of the same parts: mean times, noise, and which ranks have
 * changed; and whether other parts would be better by more than the noise.
 *
 * A rank's time is the mean of several measurements.  If one of them is far off, the processor
 * has changed or was interrupted; the next measurement decides which.
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
    int64_t *n;    /* [p] measurements in the mean */
    double *doubt; /* [p] the sign of a deviation that may be a change, or 0 */
    double *off;   /* ring buffer of relative deviations, and scratch to sort them */
    int64_t n_off; /* deviations so far */
} plb_repeats_t;

int plb_repeats_init(plb_repeats_t *self, int32_t p, plb_err_t *err);
void plb_repeats_free(plb_repeats_t *self);

/** Start again: the ranks have other parts from now on. */
void plb_repeats_begin(plb_repeats_t *self);

/** The fraction by which noise may have lengthened the longest time. */
double plb_repeats_by_chance(plb_repeats_t *self);

/** Enter a measurement of the busy ranks; return whether no rank's time is in doubt. */
bool plb_repeats_observe(plb_repeats_t *self, const double *seconds, const bool *busy);

/** Learn the noise from predictions that rest on measurements of nearly these parts. */
void plb_repeats_predicted(plb_repeats_t *self, const double *seconds, const double *expected,
                           const bool *which);

typedef enum plb_division {
    PLB_DIVIDE_STAY, /* keep the present parts */
    PLB_DIVIDE_BOLD, /* take the parts that the models compute */
    PLB_DIVIDE_SAFE, /* take the parts that the models compute if a rank pages as soon as it gets
                        more rows than before */
} plb_division_t;

/* Seconds of the slowest rank. */
typedef struct plb_prospects {
    double now;         /* with the present parts, as measured */
    double bold;        /* with the bold parts, by the models */
    double bold_paging; /* with the bold parts, if a rank pages as soon as it gets more rows */
    double safe;        /* with the safe parts, if a rank pages as soon as it gets more rows */
    double tolerance; /* relative difference of times that counts as balanced (Clarke's epsilon) */
} plb_prospects_t;

/** Choose the parts: the present ones, unless others are better by more than chance explains
 * and, if a rank might page, by more than the tolerance. */
plb_division_t plb_repeats_choose(plb_repeats_t *self, const plb_prospects_t *prospects);

#endif
