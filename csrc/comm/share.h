/* Work lent within a step: an array's rows stay on their rank, and where that saves time another
 * rank computes some of them.
 *
 * In a call, each rank has n rows and a function that computes any of them.  The ranks first
 * reduce what they predict for their rows (PLB_SHARE_SUMS, PLB_SHARE_MAXIMA).  If lending does not
 * pay, each rank computes its own rows.  Otherwise they gather (work, speed) of each rank, and all
 * compute the same flow of work between ranks (plb_share_flow).  A rank sends the rows that it
 * lends, computes the rows that it borrows as soon as they arrive, and its own rows meanwhile.  A
 * rank that has nothing left asks others for more.  A last reduction ends the call.
 *
 * Times are in seconds; work is seconds times the speed of the rank that needs them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* ---- decisions, without MPI ----------------------------------------------------------------- */

/* X(name, unit, help): what a call did on this rank */
#define PLB_SHARE_FIGURES(X)                                                                      \
    X(seconds, "s", "duration of the call")                                                       \
    X(own, "s", "time of computing rows of this rank")                                            \
    X(borrowed, "s", "time of computing rows of other ranks")                                     \
    X(lent, "s", "time that other ranks spent on rows of this rank")                              \
    X(longest, "s", "the call without lending: work of the slowest rank, the largest of all")     \
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

typedef struct plb_share_rank {
    double work, speed;
} plb_share_rank_t;

typedef struct plb_share_flow {
    int32_t from, to;
    double work;
} plb_share_flow_t;

/** Decide how much work each rank lends to which rank, so that the slowest rank needs as little
 * time as possible.  toll: seconds of sending and receiving for a unit of work, which both ranks
 * pay. flow[p]: the result, by lender and borrower; *n: their number, at most p - 1.  A flow that
 * would save less than a hundredth of the time is left out.  Returns the time of the slowest rank.
 */
double plb_share_plan(const plb_share_rank_t *rank, int32_t p, double toll, plb_share_flow_t *flow,
                      int32_t *n);

/* What is believed about the rows of this rank.  `last` is the work of each row in the previous
 * call.  Programs whose costs jump between calls make it worthless: `trust` is the slope of the
 * regression of what chunks took on what `last` predicted, 0 ... 1, and a prediction is
 * mean + trust * (last - mean). */
typedef struct plb_row_costs {
    double *last, *now; /* [room] work of each row: in the previous call; predicted for this one */
    int64_t n, room;
    double mean;           /* work of a row, or of a unit of the program's costs */
    double trust;          /* from 1 on */
    double error;          /* |work / prediction - 1| of this rank's sum, recent mean */
    double sum[5];         /* regression in this call: rows, predictions, work; products */
    bool known, from_cost; /* known: there was a call with rows */
} plb_row_costs_t;

/** Begin a call with n rows: predict `now`, and set *sum to its sum.  cost[n]: the program's own
 * estimate, in any unit; NULL: none.  PLB_ERR_VALUE: a cost is negative or no number. */
int plb_row_costs_begin(plb_row_costs_t *self, int64_t n, const double *cost, double *sum,
                        plb_err_t *err);

/** Learn that n rows took `work` in total; row NULL: first ... first + n - 1. */
void plb_row_costs_learn(plb_row_costs_t *self, int64_t first, const int64_t *row, int64_t n,
                         double work);

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
