/* The interface of strategies.  A strategy is a pure function from a snapshot to a placement.  Its
 * code is in strategies/, and it has an entry in PLB_STRATEGIES below, a table that Python, the
 * command line and the docs read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"
#include "model/snapshot.h"

/* The families of strategies (Menon 2.2). */
typedef enum plb_family {
    PLB_COMPREHENSIVE, /* places all objects from scratch */
    PLB_REFINEMENT,    /* changes the present placement as little as it can */
} plb_family_t;
/* What a strategy's placement depends on (bits of `looks_at`). */
enum {
    PLB_LOOKS_LOAD = 1,
    PLB_LOOKS_COMM = 2,
    PLB_LOOKS_BYTES = 4,
    PLB_LOOKS_COORDS = 8,
    PLB_LOOKS_NODES = 16,
    PLB_LOOKS_SPEED = 32,
    PLB_LOOKS_MEMORY = 64,
};

typedef struct plb_opts {
    const double *params; /* values of the parameters, in the order of the strategy's `params` */
    uint64_t seed;
    bool lenient; /* for distributed strategies.  true: ranks may end above their memory limits,
                     because a running program must go on; false: this is an error */
} plb_opts_t;

struct plb_agent_type; /* kit/agent.h */

typedef struct plb_strategy plb_strategy_t;
struct plb_strategy {
    const char *name, *help, *source; /* source: paper and section */
    plb_family_t family;
    unsigned looks_at;
    const plb_param_t *params;
    int n_params;
    /** Write a rank for each object into out[n_objects].  `in` has been checked.  self->user:
     * state of a strategy that the program has added, e.g. a Python function; else NULL. */
    int (*run)(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err);
    void *user;
    /* agents of a distributed strategy (kit/agent.h); NULL: the strategy is central */
    const struct plb_agent_type *agent;
    const char *library;    /* name of the partitioner that the strategy needs; NULL: none */
    bool for_equal_objects; /* the strategy assumes that all objects are equal, and is never
                               selected automatically */
};

/* X(name): the strategy is plb_strategy_<name>.  Strategies are listed in this order. */
#define PLB_STRATEGIES(X)                                                                         \
    X(none)                                                                                       \
    X(bestfit)                                                                                    \
    X(greedy)                                                                                     \
    X(refine)                                                                                     \
    X(refine_swap)                                                                                \
    X(refine_comm)                                                                                \
    X(comm_aware)                                                                                 \
    X(vector)                                                                                     \
    X(ccm)                                                                                        \
    X(power)                                                                                      \
    X(metis)                                                                                      \
    X(scotch)                                                                                     \
    X(scotch_refine)                                                                              \
    X(zoltan)                                                                                     \
    X(mtkahypar)                                                                                  \
    X(hypergraph)                                                                                 \
    X(rcb)                                                                                        \
    X(hsfc)                                                                                       \
    X(gossip)                                                                                     \
    X(hierarchical)                                                                               \
    X(diffusion)
#define X(name) extern const plb_strategy_t plb_strategy_##name;
PLB_STRATEGIES(X)
#undef X

/** All strategies in the order of PLB_STRATEGIES, then NULL. */
extern const plb_strategy_t *const plb_strategies[];

/** Run a strategy of the table, or one that the program has added.  If the placement of a strategy
 * of the table is slower than the present one, `out` is the present one, except if that exceeds a
 * memory limit or if the strategy takes all objects as equal.  Strategies with parameters alpha
 * and beta count messages in a rank's time; others that read communication may be slower if they
 * send less. */
int plb_strategy_place(const plb_strategy_t *self, const plb_snapshot_t *in,
                       const plb_opts_t *opts, int32_t *out, plb_err_t *err);

/** Return the strategy with that name, e.g. "GreedyLB"; NULL: there is none. */
const plb_strategy_t *plb_strategy_find(const char *name);
