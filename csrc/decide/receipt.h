/* The receipt of a decision: its reasons, its cost, and the time that it saved.  The comments of
 * Python's `Receipt` describe most fields. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "decide/trigger.h"

/* X(name): the numbers of a placement, which the rank that places sends to all other ranks. */
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
    X(memory_full)                                                                                \
    X(heaviest)                                                                                   \
    X(next_heaviest)                                                                              \
    X(heaviest_key)                                                                               \
    X(ahead)                                                                                      \
    X(present)                                                                                    \
    X(loss_0)                                                                                     \
    X(loss_1)                                                                                     \
    X(loss_2)                                                                                     \
    X(loss_4)                                                                                     \
    X(loss_8)                                                                                     \
    X(loss_scattered)                                                                             \
    X(tolerance)                                                                                  \
    X(loss_tolerant)                                                                              \
    X(seconds_statistics)                                                                         \
    X(seconds_strategy)

typedef struct plb_placing {
#define X(name) double name;
    PLB_PLACING(X)
#undef X
} plb_placing_t;

/** Return a plb_placing_t in which all numbers are NAN. */
plb_placing_t plb_placing_unknown(void);

/* X(name): the other numbers of a receipt; NAN: unknown. */
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

/* X(name): the integers of a receipt: counts and iteration numbers. */
#define PLB_RECEIPT_COUNTS(X)                                                                     \
    X(iteration)                                                                                  \
    X(until)                                                                                      \
    X(times)                                                                                      \
    X(migrations)                                                                                 \
    X(bytes)                                                                                      \
    X(iterations)                                                                                 \
    X(off_until)

typedef enum plb_decision_kind {
    PLB_DECISION_HOLD,    /* the trigger considered an LB step and decided against it */
    PLB_DECISION_OFF,     /* LB steps did not pay: off until `off_until` or an early trial */
    PLB_DECISION_BALANCE, /* rebalance, as the trigger asked */
    PLB_DECISION_SPEEDS,  /* rebalance: a preview expects to save `found` seconds per iteration */
} plb_decision_kind_t;

/* The expected gain and cost of a strategy. */
typedef struct plb_alternative {
    double gain; /* seconds per iteration */
    double cost; /* seconds; NAN: not known */
} plb_alternative_t;

typedef struct plb_receipt {
    plb_decision_kind_t kind;
    int32_t strategy; /* index; -1: none ran */
    bool moved;       /* false: nothing moved (shadow mode) */
    plb_verdict_t verdict;
    plb_placing_t placing;
#define X(name) double name;
    PLB_RECEIPT(X)
#undef X
#define X(name) int64_t name;
    PLB_RECEIPT_COUNTS(X)
#undef X
    char why[512];                   /* why this strategy was chosen; empty: there was no choice */
    plb_alternative_t *alternatives; /* owned; one for each strategy */
    double *speed; /* owned; [n_ranks] as given to the strategy; NULL: it was given none */
} plb_receipt_t;

/* X(name, type): sums over the dropped receipts; `n` of them, from index `from` on. */
#define PLB_DROPPED(X)                                                                            \
    X(from, int64_t)                                                                              \
    X(n, int64_t)                                                                                 \
    X(balancings, int64_t)                                                                        \
    X(migrations, int64_t)                                                                        \
    X(bytes, int64_t)                                                                             \
    X(cost, double)                                                                               \
    X(step_seconds, double)

typedef struct plb_dropped {
#define X(name, type) type name;
    PLB_DROPPED(X)
#undef X
} plb_dropped_t;

void plb_receipt_free(plb_receipt_t *self);

/** Drop old receipts if n >= keep (8 or more; 0: never): keep the first keep / 4 and the last keep
 * / 2, and add the others to `dropped`.  Return the number of dropped receipts. */
int64_t plb_receipts_thin(plb_receipt_t *receipts, int64_t n, int64_t keep,
                          plb_dropped_t *dropped);
