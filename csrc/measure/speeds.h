/* Fits the speed of each rank to the times of objects that have been on several ranks.
 *
 * The time of object o on rank r is work_o / speed_r, or in logarithms y = w_o - s_r + noise.  A
 * slow rank slows every object that comes to it, and a heavy object is heavy on every rank.  So
 * objects that were on several ranks separate the ranks' speeds from the work.  (Dasgupta 2013
 * assumes that all objects are equal.)
 *
 * w and s are fitted by least squares: w is eliminated, and s is found by conjugate gradients,
 * because fitting w and s in turn needs hundreds of rounds if few objects have moved.
 * Observations get weights by Huber's rule (1.345 sigma; sigma from the median residual), so that
 * stragglers and objects whose work has changed have little influence.
 *
 * The user's own estimates of the work count as observations on one more rank. */
#pragma once

#include <stdint.h>

#include "base/err.h"

typedef struct plb_speeds {
    double sigma;     /* noise of an observation's logarithm, from the median residual */
    double error;     /* the same noise, from the squares of all residuals; infinite: unknown */
    double explained; /* fraction of the variance of moved objects' times that speeds explain */
    int64_t moved;    /* number of objects that were seen on several ranks */
} plb_speeds_t;

/* Observations of the objects that were on several ranks; float is precise enough for times. */
typedef struct plb_moved {
    int64_t n, m;   /* numbers of objects and of observations */
    int64_t *start; /* [n + 1] where the observations of each object begin */
    int32_t *rank;  /* [m] rank of each observation */
    float *y;       /* [m] log seconds */
    float *weight;  /* [m] above 0 */
} plb_moved_t;

/** Allocate the arrays for n objects and m observations; self->n and self->m start at 0. */
int plb_moved_init(plb_moved_t *self, int64_t n, int64_t m, plb_err_t *err);
void plb_moved_free(plb_moved_t *self);

/* The start of a large fit: the result of the previous fit, which saves steps; {0}: none. */
typedef struct plb_speeds_start {
    int32_t p;
    double *log_speed; /* [p] logarithms of the speeds */
    double first;      /* r . z (solve in speeds.c) at the start of a fit from zero */
    double sigma;
} plb_speeds_start_t;

void plb_speeds_start_free(plb_speeds_start_t *self);

/** Fit log_speed[p], with mean 0 over the ranks that share objects; 0 for ranks that share none.
 * error[p]: standard errors; infinite if unknown.  *start (NULL: none) is used and updated. */
int plb_speeds_of_moved(const plb_moved_t *moved, int32_t p, plb_speeds_start_t *start,
                        double *log_speed, double *error, plb_speeds_t *out, plb_err_t *err);

/** Return the speed with this logarithm, but within 1e-30 ... 1e30, the domain of speeds. */
double plb_speed_of(double log_speed);

/** Fit speed[p], with geometric mean 1 over the ranks that share objects; 1 for ranks that share
 * none.  Object o has the observations k = start[o] ... start[o+1]-1: it took seconds[k] > 0 on
 * rank[k]; weight[k] is above 0 in single precision, and at most 1e9 (NULL: all are 1).  error[p]:
 * standard errors of log speed; infinite if unknown. */
int plb_speeds_fit(int64_t n, const int64_t *start, const int32_t *rank, const double *seconds,
                   const double *weight, int32_t p, double *speed, double *error,
                   plb_speeds_t *out, plb_err_t *err);
