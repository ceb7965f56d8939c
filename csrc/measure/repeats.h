/* What measuring the same parts of ranks again says: their mean times, the noise, which ranks have
 * changed; and whether other parts would be better by more than that noise.
 *
 * Of several measurements of the same parts the mean counts.  A time that is far off is a
 * processor that has changed, or an interruption: the next measurement tells.
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
    double *mean;  /* [p] seconds, what counts */
    int64_t *n;    /* [p] measurements in it */
    double *doubt; /* [p] which way a time was off that may be a change, or 0 */
    double *off;   /* ring of relative deviations, and room to sort them */
    int64_t n_off; /* ever */
} plb_repeats_t;

int plb_repeats_init(plb_repeats_t *self, int32_t p, plb_err_t *err);
void plb_repeats_free(plb_repeats_t *self);

/** The ranks have other parts from now on. */
void plb_repeats_begin(plb_repeats_t *self);

/** Relative deviation of a measurement, by the median; 0 where nothing is known. */
double plb_repeats_noise(plb_repeats_t *self);

/** By how much the longest of the times may be too long, relatively, by chance. */
double plb_repeats_by_chance(plb_repeats_t *self);

/** Another measurement of the ranks that are busy; whether none of them is in doubt. */
bool plb_repeats_observe(plb_repeats_t *self, const double *seconds, const bool *busy);

/** Some times that were predicted from parts hardly different; both were measured. */
void plb_repeats_predicted(plb_repeats_t *self, const double *seconds, const double *expected,
                           const bool *which);

typedef enum plb_division {
    PLB_DIVIDE_STAY, /* as they are */
    PLB_DIVIDE_BOLD, /* by the models */
    PLB_DIVIDE_SAFE, /* by models of ranks that page at once behind the last part that they held */
} plb_division_t;

/* Seconds of the slowest rank. */
typedef struct plb_prospects {
    double now;         /* with the present parts, as measured */
    double bold;        /* with the bold parts, by the models */
    double bold_paging; /* with the bold parts, if ranks page at once */
    double safe;        /* with the safe parts, if ranks page at once */
    double tolerance;   /* relative difference of times that is balance (Clarke 2010, epsilon) */
} plb_prospects_t;

/** Which parts to take: those that are there unless others are better by more than chance, and,
 *  where a rank might page, by more than the tolerance. */
plb_division_t plb_repeats_choose(plb_repeats_t *self, const plb_prospects_t *prospects);

#endif
