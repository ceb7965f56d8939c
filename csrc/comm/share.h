/* Work lent within a step: an array's rows stay on their rank, but where that saves time, another
 * rank computes some of them.
 *
 * In a call, each rank has n rows and a function that computes any of them.  The ranks reduce the
 * predicted times, and begin to compute meanwhile.  If lending does not pay, they go on, and the
 * call costs nothing but the reduction.  Otherwise they gather each rank's remaining work, and
 * every rank computes the same flows of work between ranks (plb_share_plan).  A rank sends the
 * rows that it lends, computes the rows that it borrows as soon as they arrive, and its own rows
 * meanwhile.  A rank that will soon have nothing left asks others for more.  A last reduction ends
 * the call.
 *
 * Times are in seconds.  Work is a time multiplied by the speed of the rank that needs it. */
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
 * how late it may be, takes half of it, or all of it in a short call.  (With 0.01, lending itself
 * would be lost in the noise of real calls.) */
static const double PLB_SHARE_GAIN = 2.0 * PLB_NOISE;

/* Seconds that a chunk takes at least, twice as long as waking up: a call of a Python function
 * takes 10 us.  Lending must save as much: a call that lends ends with a reduction, and computes
 * in chunks.  (benchmarks/share_simulated.py, from here on "sim": with half of it, the first call
 * of ranks of unlike speeds takes 1.21 times the bound, not 1.17.) */
#define PLB_SHARE_CHUNK (2e-9 * PLB_WAKE_NS)

/* Three uses.  First: of the heaviest rows, every eighth stays at home; compared with these, the
 * others show how fast the ranks are that borrow them.  Second: rows nearer to each other in the
 * array than an eighth of it may cost alike.  Third: an eighth of a rank's work shows by how much
 * the rest was predicted wrongly.  tuned: parts; sim, front on 8 ranks: 1.04 times the bound;
 * without the first use 1.10, without the second 1.08, without the third 1.06 */
enum { PLB_SHARE_PARTS = 8 };

/* What a rank tells the others before they plan: its remaining work, and the speed that it has
 * measured of a rank that has borrowed from it. */
typedef struct plb_share_offer {
    double work;
    double ratio; /* speed of that rank / speed of this one */
    double of;    /* rank of that speed; -1: none was measured */
} plb_share_offer_t;

typedef struct plb_share_flow {
    int32_t from, to;
    double work;
} plb_share_flow_t;

/** Update speed[p], which is equal on all ranks, by the measured ratios of the offers.  A ratio is
 * changed by the square root of its error, and the error counts as a factor of two at most.  The
 * geometric mean of the speeds stays 1. */
void plb_share_speeds(const plb_share_offer_t *offer, int32_t p, double *speed);

/** Decide how much work each rank lends to which rank, so that the slowest rank needs as little
 * time as possible.  toll: seconds of sending and receiving for a unit of work, which both ranks
 * pay.  flow[p]: the flows, by lender and borrower; *n: their number, at most p - 1.  Returns the
 * time of the slowest rank. */
double plb_share_plan(const plb_share_offer_t *offer, const double *speed, int32_t p, double toll,
                      plb_share_flow_t *flow, int32_t *n);

/** Whether lending pays that shortens a step from `alone` to `together` seconds. */
bool plb_share_pays(double alone, double together);

/** Return the time of a step in which ranks lend each other work if that pays.  alone[p]: their
 * seconds without lending; longest: seconds that cannot be divided; bytes: of all rows; offer[p],
 * flow[p]: scratch. */
double plb_share_step(const double *alone, const double *speed, int32_t p, double longest,
                      double bytes, plb_share_offer_t *offer, plb_share_flow_t *flow);

/* The expected times of the rows of this rank, in seconds of this rank.  `last` is the time of
 * each row in the previous call.  If costs jump between calls, `last` predicts nothing: so the
 * prediction is mean + trust * (last - mean), where `trust`, 0 ... 1, is the slope of a regression
 * of the chunks' measured times on their `last`. */
typedef struct plb_row_costs {
    double *last, *now; /* [room] time of each row: in the previous call; predicted for this one */
    double *worst;      /* [room] time of a row if it is as heavy as rows near it in the array */
    int64_t n, room;
    double mean;      /* mean time of a row, or of a unit of the program's costs */
    double trust;     /* see above; 1 at first */
    double error;     /* mean of |time / prediction - 1| of this rank's sum in recent calls */
    double surprises; /* mean share of unpredicted time in chunks of over twice their prediction */
    double sum[6];    /* sums over this call's chunks: see plb_row_costs_learn */
    bool known, from_cost; /* known: there was a call with rows */
} plb_row_costs_t;

/** Begin a call with n rows: predict `now`, and set *sum to its sum.  cost[n]: the program's own
 * estimate, in any unit; NULL: none.  PLB_ERR_VALUE: a cost is negative or no number. */
int plb_row_costs_begin(plb_row_costs_t *self, int64_t n, const double *cost, double *sum,
                        plb_err_t *err);

/** Set `worst`.  If heavy rows move along the array, a row beside them can become heavy in the
 * next call.  For other rows, and if there were no surprises, `worst` is `now`. */
void plb_row_costs_look_around(plb_row_costs_t *self);

/** Learn that n rows took `seconds` in total; row NULL: first ... first + n - 1. */
void plb_row_costs_learn(plb_row_costs_t *self, int64_t first, const int64_t *row, int64_t n,
                         double seconds);

/** End the call: update trust, error and mean.  predicted: the *sum of plb_row_costs_begin. */
void plb_row_costs_end(plb_row_costs_t *self, double predicted);
void plb_row_costs_free(plb_row_costs_t *self);

/* ---- the rows of a program ------------------------------------------------------------- */

/* How a program computes rows.  The functions return PLB_OK, or a negative code after an error. */
typedef struct plb_shared_rows {
    int64_t n, row_bytes; /* number of rows; bytes of a row in a message, equal on all ranks */
    double kind;          /* 0 ... 0.5: a hash of their types, equal on all ranks */
    const double *cost;   /* [n] or NULL */
    int failed;           /* PLB_OK, or an error if this rank cannot compute: then all fail */
    int64_t chunk;        /* largest number of rows computed together; 0: chosen by time */
    void *arg;
    /** Compute the rows row[n] of this rank, or, if `row` is NULL, first ... first + n - 1. */
    int (*own)(void *arg, int64_t first, const int64_t *row, int64_t n, plb_err_t *err);
    /** Write row[n] to out[n * row_bytes]. */
    int (*pack)(void *arg, const int64_t *row, int64_t n, char *out, plb_err_t *err);
    /** Compute n rows of another rank.  *answer, for `take`: *bytes bytes, allocated by
     * plb_malloc; after an error, a text that says what has happened, or NULL. */
    int (*guest)(void *arg, const char *rows, int64_t n, char **answer, int64_t *bytes,
                 plb_err_t *err);
    /** Store the answer of rank `from` for the rows row[n] of this rank.  failed: whether `from`
     * could not compute them; then `answer` is its text, and the function returns the error. */
    int (*take)(void *arg, int from, bool failed, const int64_t *row, int64_t n,
                const char *answer, int64_t bytes, plb_err_t *err);
} plb_shared_rows_t;
