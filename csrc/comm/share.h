/* Work lent within a step: an array's rows stay on their rank, and where that saves time another
 * rank computes some of them.
 *
 * In a call, each rank has n rows and a function that computes any of them.  The ranks reduce what
 * they predict for their rows, and begin to compute them meanwhile.  If lending does not pay, they
 * go on, and the call costs nothing but the reduction.  Otherwise they gather what each rank has
 * left, and all compute the same flow of work between ranks (plb_share_plan).  A rank sends the
 * rows that it lends, computes the rows that it borrows as soon as they arrive, and its own rows
 * meanwhile.  A rank that will soon have nothing left asks others for more.  A last reduction ends
 * the call.
 *
 * Times are in seconds; work is seconds times the speed of the rank that needs them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* ---- decisions, without MPI ----------------------------------------------------------------- */

/* X(name, unit, help): what a call did on this rank */
#define PLB_SHARE_FIGURES(X)                                                                      \
    X(seconds, "s", "duration of the call")                                                       \
    X(own, "s", "time of computing rows of this rank")                                            \
    X(borrowed, "s", "time of computing rows of other ranks")                                     \
    X(lent, "s", "time that other ranks spent on rows of this rank")                              \
    X(longest, "s", "the call without lending, on the slowest rank")                              \
    X(bound, "s", "all work divided by the sum of all speeds")                                    \
    X(saved, "s", "`longest` minus `seconds` of the slowest rank; would be, if nothing is lent")  \
    X(rows, "", "rows of this rank that other ranks computed")                                    \
    X(bytes, "B", "bytes that this rank sent for them")                                           \
    X(speed, "", "speed of this rank")

typedef struct plb_share_figures {
#define X(name, unit, help) double name;
    PLB_SHARE_FIGURES(X)
#undef X
} plb_share_figures_t;

/* Seconds for a byte that is sent and received: a copy at each end, 1 GB/s together.  The default
 * of an option. */
#define PLB_SHARE_BETA 1e-9

/* Lending, and each flow, must save this part of the time; the last chunk of a rank, which says
 * how late it may be, takes as much.  (benchmarks/share_simulated.py, front on 16 ranks: 1.07
 * times the bound; with 0.01 1.06, but lending itself would be lost in the noise of real calls.)
 */
static const double PLB_SHARE_GAIN = 2.0 * PLB_NOISE;

/* One row in this many of the heaviest stays at home: against these the speeds of the ranks that
 * borrow the others are measured.  Rows within one part in so many of the array may turn out like
 * each other, and one part in so many of a rank's work says by how much it was mispredicted.
 * tuned: parts; benchmarks/share_simulated.py, front on 8 ranks: 1.04 times the bound; without the
 * first 1.10, without the second 1.08, without the third 1.06 */
enum { PLB_SHARE_PARTS = 8 };

/* What a rank tells the others before they plan: the work that it has left, and what it has seen
 * of the speed of a rank that has borrowed from it. */
typedef struct plb_share_offer {
    double work;
    double ratio; /* speed of that rank / speed of this one */
    double of;    /* that rank; -1: nothing was seen */
} plb_share_offer_t;

typedef struct plb_share_flow {
    int32_t from, to;
    double work;
} plb_share_flow_t;

/** Learn the speeds of p ranks, equal on all of them, from what each has told: half of the
 * difference counts, and of that a factor of two at most.  Their geometric mean stays 1. */
void plb_share_speeds(const plb_share_offer_t *offer, int32_t p, double *speed);

/** Decide how much work each rank lends to which rank, so that the slowest rank needs as little
 * time as possible.  toll: seconds of sending and receiving for a unit of work, which both ranks
 * pay. flow[p]: the result, by lender and borrower; *n: their number, at most p - 1.  Returns the
 * time of the slowest rank. */
double plb_share_plan(const plb_share_offer_t *offer, const double *speed, int32_t p, double toll,
                      plb_share_flow_t *flow, int32_t *n);

/* What is believed about the rows of this rank, in seconds of this rank.  `last` is the time of
 * each row in the previous call.  Programs whose costs jump between calls make it worthless:
 * `trust` is the slope of the regression of what chunks took on what `last` predicted, 0 ... 1,
 * and a prediction is mean + trust * (last - mean). */
typedef struct plb_row_costs {
    double *last, *now; /* [room] time of each row: in the previous call; predicted for this one */
    double *worst;      /* [room] time of a row if it turns out like its neighbours in the array */
    int64_t n, room;
    double mean;      /* time of a row, or of a unit of the program's costs */
    double trust;     /* from 1 on */
    double error;     /* |time / prediction - 1| of this rank's sum, recent mean */
    double surprises; /* part of the time spent in chunks above twice their prediction, recent mean
                       */
    double sum[6];    /* of this call: rows, predictions, seconds, two products, surprises */
    bool known, from_cost; /* known: there was a call with rows */
} plb_row_costs_t;

/** Begin a call with n rows: predict `now`, and set *sum to its sum.  cost[n]: the program's own
 * estimate, in any unit; NULL: none.  PLB_ERR_VALUE: a cost is negative or no number. */
int plb_row_costs_begin(plb_row_costs_t *self, int64_t n, const double *cost, double *sum,
                        plb_err_t *err);

/** Set `worst`.  Where heavy rows move, a row beside them can turn heavy from one call to the
 * next; elsewhere, and if there were no surprises, worst is `now`. */
void plb_row_costs_look_around(plb_row_costs_t *self);

/** Learn that n rows took `seconds` in total; row NULL: first ... first + n - 1. */
void plb_row_costs_learn(plb_row_costs_t *self, int64_t first, const int64_t *row, int64_t n,
                         double seconds);

/** End the call: renew trust, error and mean; `predicted`: what plb_row_costs_begin has returned.
 */
void plb_row_costs_end(plb_row_costs_t *self, double predicted);
void plb_row_costs_free(plb_row_costs_t *self);

/* ---- the rows of a program ------------------------------------------------------------- */

/* How a program computes rows.  The functions return PLB_OK, or a negative code after an error. */
typedef struct plb_shared_rows {
    int64_t n, row_bytes; /* number of rows; bytes in which a row travels, equal on all ranks */
    const double *cost;   /* [n] or NULL */
    int failed;           /* the code of an error of this rank, which cannot compute: all fail */
    int64_t chunk;        /* rows that are computed together at most; 0: by their time */
    void *arg;
    /** Compute the rows row[n] of this rank, or, if `row` is NULL, first ... first + n - 1. */
    int (*own)(void *arg, int64_t first, const int64_t *row, int64_t n, plb_err_t *err);
    /** Write row[n] to out[n * row_bytes]. */
    int (*pack)(void *arg, const int64_t *row, int64_t n, char *out, plb_err_t *err);
    /** Compute n rows of another rank.  *answer: *bytes from plb_malloc, for `take`; after an
     * error a text that says what has happened, or NULL. */
    int (*guest)(void *arg, const char *rows, int64_t n, char **answer, int64_t *bytes,
                 plb_err_t *err);
    /** Keep the answer of rank `from` for the rows row[n] of this rank.  failed: `from` could not
     * compute them; `answer` is its text, and the function returns the error. */
    int (*take)(void *arg, int from, bool failed, const int64_t *row, int64_t n,
                const char *answer, int64_t bytes, plb_err_t *err);
} plb_shared_rows_t;
