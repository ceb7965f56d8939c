/* The interface of strategies.  A strategy is a pure function from a snapshot to a placement.  Its
 * code is in strategies/, and it has an entry in PLB_STRATEGIES below, a table that Python, the
 * command line and the docs read. */
#pragma once

#include "base/base.h"
#include "model/model.h"

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
    bool lenient; /* only for distributed strategies.  true: ranks may end above their memory
                     limits, because a running program must go on; false: this is an error */
    bool begins;  /* only for a Python function: begin to place, and return no placement yet */
} plb_opts_t;

struct plb_agent_type; /* below */

typedef struct plb_strategy plb_strategy_t;
struct plb_strategy {
    const char *name, *help, *source; /* source: paper and section */
    plb_family_t family;
    unsigned looks_at;
    const plb_param_t *params;
    int n_params;
    /** Write a rank for each object into out[n_objects], which has their present ranks at first.
     * `in` has been checked, and has `coords` if the strategy looks at them.  self->user:
     * state of a strategy that the program has added, e.g. a Python function; else NULL. */
    int (*run)(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err);
    unsigned families; /* families of steps that a refinement makes (internal.h) */
    void *user;
    /* agents of a distributed strategy (plb_agent_type_t); NULL: the strategy is central */
    const struct plb_agent_type *agent;
    const char *library;    /* name of the partitioner that the strategy needs; NULL: none */
    bool takes_phases;      /* the strategy gets all loads of an object; others get their sum */
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

/** Run a strategy of the table, or one that the program has added.  If objects have several loads,
 * the strategy gets their sum, unless takes_phases is set.  If the placement of a strategy of the
 * table is slower than the present one, `out` becomes the present one, unless this exceeds a
 * memory limit, or the strategy assumes equal objects.  Messages count in a rank's time if the
 * strategy has parameters alpha and beta; others that read communication may be slower if they
 * send less.  Strategies that do not take phases do not know shared blocks, either: if their
 * placement exceeds a memory limit because of the blocks, CCMLB places.  opts NULL: the default
 * parameters and seed 0. */
int plb_strategy_place(const plb_strategy_t *self, const plb_snapshot_t *in,
                       const plb_opts_t *opts, int32_t *out, plb_err_t *err);

/** Return the strategy with that name, e.g. "GreedyLB"; NULL: there is none. */
const plb_strategy_t *plb_strategy_find(const char *name);

/* ---- agents of distributed strategies ------------------------------------------------------- */

/* Distributed strategies: placements that no single rank computes.
 *
 * Each rank has an agent, and all agents work in rounds.  In each round an agent reads the notes
 * (short messages) that other agents wrote to it in the previous round, in order of their ranks,
 * and the tally (a few sums, maxima and counts over all ranks).  The agent may take objects or
 * give objects away, and it writes notes.  A driver transports notes and tallies: plb_rounds_run
 * between virtual ranks in this process, the runtime between MPI ranks.  Both drivers give exactly
 * the same placement. */

/* The input of an agent: its rank and objects. */
typedef struct plb_share {
    int32_t rank, n_ranks;
    /* [n_neighbours] ranks of the same node, ascending, including this rank */
    const int32_t *neighbour;
    int32_t n_neighbours; /* number of ranks on this rank's node; 0: there is only one node */
    double speed, background;
    int64_t memory_limit; /* bytes; negative: no limit */
    bool lenient; /* true: ranks may end above their memory limits; false: this is an error */

    int64_t n;             /* number of objects */
    const int64_t *id;     /* [n] index of each object among the objects of all ranks, ascending */
    const double *load;    /* [n] load of each object */
    const int64_t *memory; /* [n] bytes of each object; NULL: memory does not count */
    const uint8_t *migratable; /* [n] whether each object may migrate; NULL: all may */

    int64_t n_edges;               /* number of edges from objects of this rank */
    const int32_t *edge_object;    /* [n_edges] the sending object, 0 ... n-1 */
    const int64_t *edge_peer_id;   /* [n_edges] the receiving object, by the same index as in id */
    const int32_t *edge_peer_rank; /* [n_edges] rank of the receiving object */
    const double *edge_bytes;      /* [n_edges] bytes sent */
} plb_share_t;

/* One note.  All notes from one agent to another in a round make one message. */
typedef struct plb_note {
    int32_t peer;   /* the receiving rank; after the note has arrived: the sending rank */
    int32_t kind;   /* PLB_NOTE_HOME, or one of the kinds that the strategy defines */
    int32_t rank;   /* an object's home (see plb_entry_t), or the rank that the note is about */
    int32_t unused; /* padding; always 0, because notes are sent as bytes */
    int64_t id;
    union { /* the note's kind says which of these values it has */
        double load, bytes, residual, seconds;
    };
    union {
        int64_t memory, other_id;
    };
} plb_note_t;

enum { PLB_NOTE_HOME = -1 }; /* kind of a note: "your object `id` is now on my rank" */

/* Numbers that are merged over all ranks between two rounds; none is negative, and sums are exact.
 * In each round an agent writes `mine`, and in the next round it reads the merged `all`.  The
 * meaning of a number depends on the round; each strategy has constants for its indices. */
enum { PLB_TALLY_SUMS = 2, PLB_TALLY_MAXIMA = 2, PLB_TALLY_COUNTS = 2 };
typedef struct plb_tally {
    double sum[PLB_TALLY_SUMS], max[PLB_TALLY_MAXIMA];
    int64_t count[PLB_TALLY_COUNTS];
} plb_tally_t;

/* An object that is on the agent's rank at present. */
typedef struct plb_entry {
    int64_t id;
    double load;
    int64_t memory;
    int32_t home;   /* rank of the object before the LB step */
    int32_t pinned; /* whether the object may not migrate */
} plb_entry_t;

/* The objects on a rank in one placement. */
typedef struct plb_holding {
    plb_entry_t *entry; /* [n] the objects, in any order */
    int64_t n, room;    /* room: number of entries for which memory is allocated */
    int64_t n_away;     /* number of entries that are not on their home rank */
    double load;
    int64_t memory; /* bytes of the objects */
} plb_holding_t;

/* The state of an agent: the first member of the struct that a strategy has for its agents. */
typedef struct plb_agent {
    const struct plb_agent_type *type;
    const plb_share_t *share;
    plb_holding_t now; /* the objects that are on this rank now */

    /* The problem, the same on all ranks; valid from the strategy's first round on. */
    double average; /* seconds of an iteration if all ranks ended together */
    double mean_speed;
    double least; /* lower bound of the slowest rank's seconds, at least `average` */

    plb_note_t *note; /* [n_notes] notes written in this round */
    int64_t n_notes, notes_room;
    plb_tally_t mine; /* this rank's contribution to the tally in this round */
    int stage;        /* the current stage (agent.c) */
    double before;    /* seconds of the slowest rank in the present placement */
    bool crowded;     /* whether some ranks exceed their memory limits in the present placement */
    /* seconds of this rank: in the present placement, and in the new one */
    double own_before, own_after;
    bool done;       /* whether the new placement is known */
    int32_t *answer; /* [share->n] new rank of each object of `share`; valid when done */
    int64_t held;    /* largest sum of entries, received notes and known() in a round */
} plb_agent_t;

typedef struct plb_agent_type {
    size_t size; /* bytes of an agent's state, including the plb_agent_t */
    /** Set up the strategy's part of `self`, which is zero; the plb_agent_t is set up already. */
    int (*start)(plb_agent_t *self, const plb_opts_t *opts, plb_err_t *err);
    /** Do one round.  Set *settled when the strategy has ended: all agents do this in the same
     * round, and write no notes in this round. */
    int (*round)(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                 bool *settled, plb_err_t *err);
    /** Return how many items (e.g. known ranks) the strategy stores besides the rank's objects. */
    int64_t (*known)(const plb_agent_t *self);
    void (*stop)(plb_agent_t *self);
} plb_agent_type_t;

/** Make the agent of one rank; NULL after an error.  Borrows `share` and opts->params. */
plb_agent_t *plb_agent_new(const plb_agent_type_t *type, const plb_share_t *share,
                           const plb_opts_t *opts, plb_err_t *err);
void plb_agent_destroy(plb_agent_t *self);

/** Do one round.  in[n_in]: the notes of the previous round to this rank, in order of `peer`.
 * all: the merged tally of the previous round (zeros in the first round).  The caller then
 * transports note[n_notes] and merges `mine`.  All agents are `done` in the same round. */
int plb_agent_round(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                    plb_err_t *err);

/* ---- for strategies ------------------------------------------------------------------------- */

static inline double plb_agent_time(const plb_agent_t *self, double load)
{
    return self->share->background + load / self->share->speed;
}

/** Return the load with which this rank takes `time` seconds; it can be negative. */
static inline double plb_agent_allowed(const plb_agent_t *self, double time)
{
    return (time - self->share->background) * self->share->speed;
}

/** Return the bytes of memory that are left on this rank; INT64_MAX: there is no limit. */
static inline int64_t plb_agent_room(const plb_agent_t *self)
{
    return self->share->memory_limit < 0 ? INT64_MAX
                                         : self->share->memory_limit - self->now.memory;
}

int plb_agent_post(plb_agent_t *self, plb_note_t note, plb_err_t *err);

#define PLB_POST(self, err, ...) plb_agent_post((self), (plb_note_t){__VA_ARGS__}, (err))

/** Give entry k to rank `to`, by a note of kind `kind`.  The last entry moves to index k. */
int plb_agent_give(plb_agent_t *self, int64_t k, int32_t to, int32_t kind, plb_err_t *err);

/** Take the object of a note that has arrived: add it to the entries. */
int plb_agent_take(plb_agent_t *self, const plb_note_t *note, plb_err_t *err);

/** Set *out to the objects that were on this rank before the LB step.  Free out->entry. */
int plb_agent_home(const plb_agent_t *self, plb_holding_t *out, plb_err_t *err);

/** Sort the entries, the lightest first; equal loads keep their order, pinned entries come last.
 * *n_movable: number of entries that are not pinned. */
int plb_agent_sort(plb_agent_t *self, int64_t *n_movable, plb_err_t *err);

/* ---- their rounds in one process ------------------------------------------------------------ */

/* Runs the agents of all ranks of a snapshot as virtual ranks in this process. */

/* The traffic of a placement in rounds: arrays [n_ranks] of the caller, all zero at first. */
typedef struct plb_traffic {
    int64_t rounds;
    int64_t *messages, *bytes; /* number of messages and bytes that each rank has sent */
    int64_t *held;             /* `held` of each rank's agent (above) */
} plb_traffic_t;

/** Run the agents until the placement is known, and write the placement to out[n_objects].
 * `traffic` may be NULL. */
int plb_rounds_run(const plb_agent_type_t *type, const plb_snapshot_t *in, const plb_opts_t *opts,
                   int32_t *out, plb_traffic_t *traffic, plb_err_t *err);

/** The function `run` of every distributed strategy in PLB_STRATEGIES. */
int plb_strategy_in_rounds(const plb_strategy_t *self, const plb_snapshot_t *in,
                           const plb_opts_t *opts, int32_t *out, plb_err_t *err);

/* ---- proportions ---------------------------------------------------------------------------- */

/* Divides a whole number in given proportions.  The largest number: rounding errors of sums of
 * parts stay far below 1. */
#define PLB_MOST_APPORTIONED 1000000000000LL

/** Divide n into integers part[i], proportional to share[i] (finite, 0 or more, not all 0), by the
 * method of the largest remainder: all parts are rounded down, then the parts with the largest
 * remainders get one more each, until the sum is n.  In a tie (to a millionth), the lowest index
 * is first.  Dasgupta's eq. 3 and 4 are the case share[i] = 1 / w[i], where w[i] is the time per
 * object. */
int plb_apportion(const double *share, int32_t p, int64_t n, int64_t *part, plb_err_t *err);

/* Items dealt out to bins, so that the bin with the largest cost costs as little as possible: e.g.
 * sequences of unequal length, to processes. */

typedef struct plb_bins {
    int64_t n;            /* items, below 2^31 */
    int32_t m;            /* bins */
    const double *cost;   /* [n] */
    const double *length; /* [n] with a capacity */
    double capacity;      /* the lengths in a bin add up to at most this; INFINITY: no limit */
    bool equal;         /* all bins get the same number of items, or numbers that differ by one */
    const int32_t *was; /* [n] present bins; -1: a new item.  As many as possible stay, if the
                           largest cost is at most a thousandth above the bound.  NULL: none */
} plb_bins_t;

/** Write the bin of each item to bin[n], and to sum[m] the cost of each bin.  *bound: no packing
 * has a smaller largest cost.  PLB_ERR_INFEASIBLE: an item fits into no bin.  Ties: the lowest
 * index. */
int plb_bins_pack(const plb_bins_t *of, int32_t *bin, double *sum, double *bound, plb_err_t *err);

/* Placement of objects that may have several copies, which share the object's load: experts of a
 * mixture-of-experts model, hot tables. */

/* Objects and ranks.  Rank r has the slots first[r] ... first[r + 1] - 1.  A slot holds a copy of
 * an object, or is empty (-1); each object has at least one copy, and at most one on a rank. */
typedef struct plb_copies {
    int32_t n_objects, n_ranks;
    const int32_t *first;  /* [n_ranks + 1] */
    const int64_t *memory; /* [n_objects] bytes that a copy occupies; NULL: not limited */
    const int64_t *limit;  /* [n_ranks] bytes for the copies of each rank; NULL: not limited */
    const int64_t *bytes;  /* [n_objects] that a migration sends; NULL: 1 each */
    const int32_t
        *group;          /* [n_objects] all objects of a group stay on one node; NULL: no groups */
    const int32_t *node; /* [n_ranks] with groups: node of each rank; all have as many ranks */
    int32_t n_groups, n_nodes;
    double
        tolerance; /* the slowest rank may take this share above the bound, to save migrations */
    double move;   /* seconds that the migration of a byte costs; 0: no more than the tolerance
                      says */
    bool even;     /* the copies of an object share its load evenly; false: by the shares below */
} plb_copies_t;

typedef struct plb_copies_result {
    double max, mean;          /* time of the slowest rank, and of an average rank */
    double bound;              /* no placement has a smaller max */
    int64_t migrations, bytes; /* copies on ranks that did not hold the object before */
} plb_copies_result_t;

/** Place each layer on its own: load[n_layers][n_objects] to slot[n_layers][slots], the object in
 * each slot, and share[n_layers][slots], its part of the object's load.  was: the present slots,
 * of which as many as possible stay as they are; entries that are no object, and second copies on
 * one rank, count as empty; NULL: nothing is placed yet.  With `move`, an empty slot is filled
 * only where this pays.  PLB_ERR_INFEASIBLE: the objects do not fit.  Ties: the lowest rank, slot,
 * object. */
int plb_copies_place(const plb_copies_t *of, int32_t n_layers, const double *load,
                     const int32_t *was, int32_t *slot, double *share, plb_copies_result_t *out,
                     plb_err_t *err);
