/* For row partitions: judges repeated measurements of the same parts (rows of each rank).  In: the
 * seconds of each rank in an iteration.  Out: mean times, noise, which ranks have changed, and
 * whether other parts would be better by more than the noise.
 *
 * A rank's time is the mean of several measurements.  If a measurement is far from this mean, the
 * processor has changed or was interrupted.  The next measurement shows which of the two. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct plb_repeats {
    int32_t p;
    double *mean;  /* [p] seconds: mean of each rank's measurements */
    int64_t *n;    /* [p] number of measurements in the mean */
    double *doubt; /* [p] last measurement: 1: far above the mean; -1: far below it; 0: near it */
    double *off;   /* ring buffer of relative deviations, then scratch memory of the same size */
    int64_t n_off; /* number of deviations so far */
} plb_repeats_t;

int plb_repeats_init(plb_repeats_t *self, int32_t p, plb_err_t *err);
void plb_repeats_free(plb_repeats_t *self);

/** Start the means again, because the ranks have new parts; the noise is kept. */
void plb_repeats_begin(plb_repeats_t *self);

/** Add the measurement seconds[r] of each rank r for which busy[r] is true.  Returns false if a
 * measurement is far from its mean, and the previous measurement was not far off on the same side:
 * only the next measurement shows whether the rank has changed.  If the next one is far off on
 * the same side, the rank has changed, and its mean starts again. */
bool plb_repeats_observe(plb_repeats_t *self, const double *seconds, const bool *busy);

/** Learn the noise from the differences between seconds[r] and the predicted expected[r], for the
 * ranks r with which[r] true: their predictions rest on measurements of nearly the same parts.
 * Times that differ by more than noise (a factor of 1.25) are left out. */
void plb_repeats_predicted(plb_repeats_t *self, const double *seconds, const double *expected,
                           const bool *which);

typedef enum plb_division {
    PLB_DIVIDE_STAY, /* keep the present parts */
    PLB_DIVIDE_BOLD, /* take the parts that the models compute */
    PLB_DIVIDE_SAFE, /* like BOLD, but assume that ranks start to page if they get more rows */
} plb_division_t;

/* Seconds of the slowest rank for each choice of the parts, and the tolerance. */
typedef struct plb_prospects {
    double now;         /* present parts, as measured */
    double bold;        /* parts of PLB_DIVIDE_BOLD, computed by the models */
    double bold_paging; /* parts of PLB_DIVIDE_BOLD, with paging as PLB_DIVIDE_SAFE assumes it */
    double safe;        /* parts of PLB_DIVIDE_SAFE, with the same paging */
    double tolerance; /* relative difference of times that counts as balanced (Clarke's epsilon) */
} plb_prospects_t;

/** Choose the parts.  New parts must be better by more than chance explains, or by more than the
 * tolerance.  If paging is a risk: PLB_DIVIDE_SAFE is preferred if it is nearly as good as
 * PLB_DIVIDE_BOLD; if it is not, PLB_DIVIDE_BOLD must be better by more than the tolerance. */
plb_division_t plb_repeats_choose(plb_repeats_t *self, const plb_prospects_t *prospects);
