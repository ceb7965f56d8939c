/* The receipt of a decision: its inputs, what it cost, what it gained.
 *
 * Python's `Receipt` has the same fields by the same names; its docstring says what each one is.
 */
#ifndef PLB_DECIDE_RECEIPT_H
#define PLB_DECIDE_RECEIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "decide/trigger.h"

/* X(name): figures of a placement, told by the rank that placed to all others. */
#define PLB_PLACING(X)                                                                            \
    X(before)                                                                                     \
    X(predicted)                                                                                  \
    X(before_with_messages)                                                                       \
    X(predicted_with_messages)                                                                    \
    X(passed_over)                                                                                \
    X(idle_mean)                                                                                  \
    X(idle_max)                                                                                   \
    X(predicted_idle_mean)                                                                        \
    X(predicted_idle_max)                                                                         \
    X(seconds_statistics)                                                                         \
    X(seconds_strategy)

typedef struct plb_placing {
#define X(name) double name;
    PLB_PLACING(X)
#undef X
} plb_placing_t;

/* X(name): the other figures of a receipt, doubles that are NAN where nothing is known. */
#define PLB_RECEIPT(X)                                                                            \
    X(max)                                                                                        \
    X(mean)                                                                                       \
    X(left)                                                                                       \
    X(realised)                                                                                   \
    X(realised_idle_mean)                                                                         \
    X(realised_idle_max)                                                                          \
    X(seconds_migration)                                                                          \
    X(seconds_warm_up)                                                                            \
    X(seconds)                                                                                    \
    X(cost)                                                                                       \
    X(gain)                                                                                       \
    X(paid)                                                                                       \
    X(saved)                                                                                      \
    X(found)

/* X(name): its counts. */
#define PLB_RECEIPT_COUNTS(X)                                                                     \
    X(iteration)                                                                                  \
    X(until)                                                                                      \
    X(times)                                                                                      \
    X(migrations)                                                                                 \
    X(bytes)                                                                                      \
    X(iterations)                                                                                 \
    X(off_until)

typedef enum plb_decision_kind {
    PLB_DECISION_HOLD, /* the trigger weighed an LB step and held back */
    PLB_DECISION_OFF,  /* LB steps have not paid: `paid` and `saved` seconds, until `off_until` */
    PLB_DECISION_BALANCE, /* rebalance, as the trigger asked */
    PLB_DECISION_SPEEDS,  /* rebalance, since better known speeds save `found` s an iteration */
} plb_decision_kind_t;

/* What a strategy was expected to save and to cost. */
typedef struct plb_alternative {
    double gain; /* seconds an iteration */
    double cost; /* seconds; NAN: not known */
} plb_alternative_t;

typedef struct plb_receipt {
    plb_decision_kind_t kind;
    int32_t strategy; /* index, or -1: none ran */
    bool moved;       /* objects went to their new ranks */
    plb_verdict_t verdict;
    plb_placing_t placing;
#define X(name) double name;
    PLB_RECEIPT(X)
#undef X
#define X(name) int64_t name;
    PLB_RECEIPT_COUNTS(X)
#undef X
    char why[320];                   /* this strategy; empty where there was no choice */
    plb_alternative_t *alternatives; /* owned; one for each strategy */
    double *speed;                   /* owned; [n_ranks] that the strategy was told, or NULL */
} plb_receipt_t;

#endif
