/* Strategy selection (Menon 3.7, figure 3.8, eq. 3.6).
 *
 * In: the statistics of every iteration (plb_selector_observe), and the outcome of every LB step
 * (plb_selector_balanced).  Out, after each iteration: whether anything is out of balance, and
 * which of the candidate strategies an LB step would use now.  A strategy whose placement depends
 * on communication is a communication strategy; if it depends on load but not on communication, it
 * is a computation strategy; other strategies cannot be selected.
 *
 * The path through figure 3.8:
 *
 *   max/mean <= imbalance, utilization >= `utilization`        balanced
 *   alpha m_n + beta m_v >= communication * total load         communication strategy  (3.6)
 *   else: max/mean > imbalance                                 computation strategy
 *   else                                                       idle, but no strategy helps
 *
 *   here: messages, bytes     in the thesis: m_n, m_v     (alpha, beta: seconds per message, byte)
 *
 * The rules.  The kind of a strategy is computation or communication; its family is comprehensive
 * (it makes a placement from scratch) or refinement (it changes the present one).
 *
 *   1. A strategy is chosen even if nothing is out of balance, because the trigger may ask for an
 *      LB step nevertheless.  Communication is intensive if it takes "at least 10 %" of the load
 *      (thesis, 3.7.1), not "more than 10 %" (3.7.3).
 *   2. The first LB step of each kind uses a comprehensive strategy, the following ones use
 *      refinements (3.7.2).  In the thesis only the first LB step of the run is comprehensive.
 *      But a placement made without regard to communication is a poor start for a communication
 *      refinement.
 *   3. Refinements perform poorly if the last one left more than `tolerance` times the max/mean
 *      that the last comprehensive strategy left; or if it left no smaller max/mean, and
 *      refinements cost more than `dearer` times as much as comprehensive strategies.  If they
 *      perform poorly, comprehensive strategies follow.  Of several candidates of a family, the
 *      best one (rule 5) is compared.
 *   4. Experience becomes out of date.  After `again` comprehensive strategies in a row, a
 *      refinement gets another chance.  After `again` refinements in a row, if the last one left
 *      more than `imbalance`, a comprehensive strategy gets another chance.
 *   5. Of several candidates of the same kind and family, the one whose most recent LB step left
 *      the smallest max/mean is used; ties: the cheapest, then the first in the table.  If this
 *      max/mean is above `imbalance`, or none has run, the first untried one, if any, is used.
 *   6. If there is no candidate of the wanted kind, the other kind is used; the same holds for
 *      the family. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "place/strategy.h"

typedef enum plb_kind {
    PLB_COMPUTATION,   /* balances the load */
    PLB_COMMUNICATION, /* keeps objects together that communicate */
} plb_kind_t;

/* X(name, in words): the ends of the path through figure 3.8.  From PLB_NEED_IDLE_COMMUNICATION
 * on, they ask for a strategy. */
#define PLB_NEEDS(X)                                                                              \
    X(START, "nothing was observed yet")                                                          \
    X(BALANCED, "the load is balanced and no rank is idle for long")                              \
    X(IDLE, "ranks are idle, but neither imbalance nor communication explains it")                \
    X(IDLE_COMMUNICATION, "the load is balanced, but ranks are idle and communication is "        \
                          "intensive")                                                            \
    X(IMBALANCED_COMMUNICATION, "the load is imbalanced and communication is intensive")          \
    X(IMBALANCED, "the load is imbalanced and communication is not intensive")

typedef enum plb_need {
#define X(name, words) PLB_NEED_##name,
    PLB_NEEDS(X)
#undef X
} plb_need_t;

/* X(name, in words): why this family was chosen. */
#define PLB_LEADS(X)                                                                              \
    X(FIRST, "the first LB step of its kind places all objects from scratch")                     \
    X(NEXT, "the LB steps after the first one move few objects")                                  \
    X(COMPARABLE, "moving few objects balances about as well as placing all from scratch")        \
    X(POOR, "the last LB step that moved few objects left more imbalance than the last one "      \
            "from scratch")                                                                       \
    X(DEAR, "LB steps that move few objects cost more than those from scratch, and the last "     \
            "one left no less imbalance")                                                         \
    X(REFINE_AGAIN, "after several LB steps from scratch, one that moves few objects gets "       \
                    "another chance")                                                             \
    X(COMPREHENSIVE_AGAIN, "imbalance is left after several LB steps that moved few objects, so " \
                           "one from scratch gets another chance")                                \
    X(ONLY, "there is no strategy of another family for this kind")

typedef enum plb_lead {
#define X(name, words) PLB_LEAD_##name,
    PLB_LEADS(X)
#undef X
} plb_lead_t;

const char *plb_need_words(plb_need_t need);
const char *plb_lead_words(plb_lead_t lead);

const char *plb_family_name(plb_family_t family);
const char *plb_kind_name(plb_kind_t kind);

/* X(name, unit, default, least, most, help and source). */
#define PLB_SELECTION(X)                                                                          \
    X(imbalance, "", 1.1, 1.0, 1e6, "max/mean beyond which the load is imbalanced (Menon 3.7.1)") \
    X(utilization, "", 0.7, 0.0, 1.0,                                                             \
      "lowest utilization of a rank below which ranks count as idle (Charm++, MetaBalancer.C)")   \
    X(communication, "", 0.1, 0.0, 1e6,                                                           \
      "share of the total load at which communication is intensive (Menon 3.7.1)")                \
    X(tolerance, "", 1.05, 1.0, 1e6,                                                              \
      "a refinement is good enough if it leaves at most this many times the max/mean of a "       \
      "comprehensive strategy (ours: half of what `imbalance` allows)")                           \
    X(dearer, "", 2.0, 1.0, 1e6,                                                                  \
      "refinements are too expensive if they cost more than this many times as much as "          \
      "comprehensive strategies "                                                                 \
      "(ours: measured costs are few and noisy)")                                                 \
    X(again, "LB steps", 5, 1, 1e6,                                                               \
      "number of LB steps with one family in a row after which the other is tried again (ours)")

enum {
#define X(name, unit, fallback, least, most, help) PLB_SELECTION_##name,
    PLB_SELECTION(X)
#undef X
        PLB_N_SELECTION
};

/** The table, PLB_N_SELECTION entries. */
extern const plb_param_t plb_selection_params[];

typedef struct plb_candidate {
    plb_family_t family;
    unsigned looks_at; /* PLB_LOOKS_* bits: what its placement depends on */
} plb_candidate_t;

typedef struct plb_workload {
    double max, mean;        /* seconds: maximum and mean of the ranks' loads */
    double total;            /* seconds: load of all ranks */
    double utilization;      /* lowest load / (load + idle) of a rank, 0 ... 1 (measure/stats.h) */
    int64_t messages, bytes; /* of messages between objects on different ranks */
} plb_workload_t;

/* The outcome of an LB step.  before, after: time of the slowest rank divided by the mean load, 1
 * or more, including the time of messages if their cost is known.  The decider takes the `after`
 * that the placement predicts. */
typedef struct plb_outcome {
    double before, after;
    double cost; /* seconds */
    int64_t migrations;
} plb_outcome_t;

typedef struct plb_record {
    int64_t n;          /* number of LB steps */
    plb_outcome_t last; /* of the last LB step; but the cost is averaged with its old value,
                           because a single LB step may have been disturbed */
} plb_record_t;

typedef struct plb_choice {
    bool needed;     /* figure 3.8 asks for a strategy; false: all is balanced, or none helps */
    plb_need_t need; /* where the path through figure 3.8 ends */
    plb_kind_t kind; /* the kind that the statistics ask for */
    plb_kind_t used; /* `kind`, or the other kind if there is no candidate of `kind` */
    plb_family_t family;
    plb_lead_t lead;        /* why this family was chosen */
    int32_t candidate;      /* index of the chosen candidate */
    double max_over_mean;   /* max/mean; 1 if there is no load */
    double utilization;     /* lowest utilization of a rank */
    double communication_s; /* seconds of communication, eq. 3.6 */
    double communication;   /* communication_s divided by the total load; 0 if both are 0 */
} plb_choice_t;

typedef struct plb_selector {
    plb_candidate_t *candidates; /* [n] owned */
    plb_record_t *records;       /* [n] owned; of each candidate */
    int32_t n;
    double alpha, beta; /* seconds per message, seconds per byte */
    double params[PLB_N_SELECTION];
    plb_family_t latest[2]; /* for each kind: family of the last LB step */
    int64_t in_row[2];      /* for each kind: LB steps in a row with this family */
    plb_choice_t choice;    /* for the last observed iteration */
} plb_selector_t;

/** Begin with candidates[n], which are copied.  alpha, beta: seconds per message and per byte.
 * PLB_ERR_VALUE: no candidate looks at load or communication, or a value is out of range. */
int plb_selector_init(plb_selector_t *self, const plb_candidate_t *candidates, int32_t n,
                      double alpha, double beta, const double *params, plb_err_t *err);
void plb_selector_free(plb_selector_t *self);

/** Observe an iteration; the answer is in self->choice.  PLB_ERR_VALUE (nothing changes): max <
 * mean, or a value is out of range. */
int plb_selector_observe(plb_selector_t *self, const plb_workload_t *w, plb_err_t *err);

/** Record an LB step with `candidate`, chosen here or not, and choose again.  PLB_ERR_RANGE: no
 * such candidate; PLB_ERR_VALUE: it cannot be selected, or the outcome is invalid. */
int plb_selector_balanced(plb_selector_t *self, int32_t candidate, const plb_outcome_t *outcome,
                          plb_err_t *err);
