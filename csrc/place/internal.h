/* What the files of place share: the problem, the engine of the refinements, memory limits, the
 * input of partitioners, and the agents of GossipLB. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "partition/partition.h"
#include "place/strategy.h"

/* ---- the problem ---------------------------------------------------------------------------- */

/* What strategies that place by load have in common: the objects that may migrate, the load of the
 * fixed objects (all others), and the memory limits. */

typedef struct plb_problem {
    const plb_snapshot_t *in;
    int64_t n;       /* number of objects that may migrate */
    int32_t *object; /* [n] indices of these objects, ascending; NULL: all objects may migrate */
    double *fixed;   /* [p] load of the fixed objects */
    int64_t *room;   /* [p] bytes of memory that the fixed objects leave free; NULL: no limits */
} plb_problem_t;

/** Return the seconds that an iteration takes if all ranks end at the same time. */
double plb_average(const plb_snapshot_t *in);

/** Separate the objects that may migrate from the fixed ones, and check that memory suffices for
 * the fixed objects of each rank.  `self` owns its arrays and borrows `in`. */
int plb_problem_init(plb_problem_t *self, const plb_snapshot_t *in, plb_err_t *err);
void plb_problem_free(plb_problem_t *self);

/** Return PLB_ERR_INFEASIBLE if the fixed objects exceed a memory limit.  left[r]: the bytes that
 * they leave free on rank r; NULL: there are no limits. */
int plb_problem_check_left(const plb_snapshot_t *in, const int64_t *left, plb_err_t *err);

/** Return object i, 0 ... n - 1, of those that may migrate. */
static inline int32_t plb_problem_object(const plb_problem_t *self, int64_t i)
{
    return self->object == NULL ? (int32_t)i : self->object[i];
}

/** Return the seconds of rank r with only its fixed objects. */
static inline double plb_problem_fixed_seconds(const plb_problem_t *self, int32_t r)
{
    return plb_background(self->in, r) + self->fixed[r] / plb_speed(self->in, r);
}

/** Compute share[n_ranks]: how much of the load `movable` each rank gets if all ranks end
 * together; 0 for a rank whose background and fixed objects take longer. */
int plb_problem_shares(const plb_problem_t *self, double movable, double *share, plb_err_t *err);

/* ---- the state of a search ------------------------------------------------------------------ */

/* The state of a placement while a search changes it: the work of each rank, its free memory, the
 * blocks on it, and its objects.
 *
 * Work.  The work of rank r in component k is
 *     t[k][r] = background[r] (k = 0) + (sum of load(i, k) over the objects on r) / speed[r],
 * and in component 0 also
 *     + alpha x messages to other ranks + beta x bytes to other ranks + gamma x bytes that stay
 *     + delta x bytes of the blocks on r whose home is another rank
 * (CCM: Lifflander, Pebay, Slattengren et al. 2024, arXiv 2404.16793).
 *
 * An edge from i to j has the cost x if the objects are on different ranks, paid by the rank of i,
 * and y if they are on one rank.  So all messages of a rank cost the sum of x over all edges from
 * its objects, minus the sum of x - y over the edges inside the rank.  Therefore it is enough to
 * know own[i], the sum of x for object i, and bond, the sum of x - y for each pair of objects; and
 * a move does not change the messages of any third rank.
 *
 * With distances (`near` of the snapshot), an edge between two ranks of one node costs the rank of
 * i less than x, by near[k].  Then a move also changes the cost of third ranks whose objects send
 * to the moved object: of those that share a node with it before or after the move. */

/* What a search makes as small as possible. */
typedef struct plb_objective {
    double alpha, beta, gamma, delta; /* weights of the costs above */
    bool messages; /* whether messages are part of the work; false: their cost only decides ties */
    bool kinds;    /* true: components are kinds of processors, and the value is the largest
                      t[k][r] / goal[k]; false: components are phases, and the value is the sum over
                      k of the largest t[k][r] */
} plb_objective_t;

/* The three slowest ranks of a component, the slowest first; rank -1: there is none. */
typedef struct plb_slowest {
    double time[3];
    int32_t rank[3];
} plb_slowest_t;

typedef struct plb_state {
    const plb_snapshot_t *in;
    plb_objective_t of;
    int32_t p, d;       /* number of ranks, number of components */
    int32_t *rank;      /* [n] array of the caller: the current rank of each object; -1: none */
    double *goal, *per; /* [d] goal: lower bound of the slowest rank's work; per: 1 / goal, or 0 */
    double *pace;       /* [d * p] 1 / speed */
    double *t;          /* [d * p] see above */
    plb_slowest_t *slowest; /* [d] as of the last call of plb_state_value */
    double *own;            /* [n] see above; NULL: there are no messages */
    int64_t *start;         /* [n + 1] partners of object i: other[start[i] ... start[i + 1] -
                               1] */
    int32_t *other;         /* the partners; several entries can name the same one */
    double *bond;           /* bonds, see above */
    double *near;       /* see above; negative: the partner is the sender, so its rank pays; NULL:
                           there are no distances */
    int32_t *neighbour; /* [p] with distances: the next rank of the same node, in a ring */
    int64_t *left;      /* [p] free bytes, negative above the limit; NULL: there are no limits */
    bool fits;          /* whether all ranks kept their limits at the last plb_state_value */
    int64_t *slot;      /* [n_blocks + 1] first entry of each block in the arrays below; NULL: no
                           blocks */
    int32_t *n_slots;   /* [n_blocks] number of entries in use; -1: entry r is for rank r, for all
                           ranks */
    int32_t *holder, *uses; /* entries: a rank that has the block, and how many of its objects use
                               it */
    int32_t *head;          /* [p] first object of each rank that may migrate; -1: none.  NULL:
                               objects are not listed (yet) */
    int32_t *next, *prev;   /* [n] next and previous object on the same rank; -1: none */
} plb_state_t;

/** Compute goals, messages and blocks.  All objects are without a rank before plb_state_begin or
 * plb_state_set.  The caller owns `in` and rank[n].  Free `self` also after a failure. */
int plb_state_init(plb_state_t *self, const plb_snapshot_t *in, const plb_objective_t *of,
                   int32_t *rank, plb_err_t *err);
void plb_state_free(plb_state_t *self);

/** Whether the work of a rank is one load, without messages and blocks. */
static inline bool plb_state_is_plain(const plb_state_t *self)
{
    return self->d == 1 && self->own == NULL && self->slot == NULL;
}

/** List the objects of each rank, again if plb_transfer has moved some. */
int plb_state_list(plb_state_t *self, plb_err_t *err);

/** Begin (again) with only the background and the fixed objects. */
void plb_state_begin(plb_state_t *self);

/** Begin (again) with object i on rank to[i]. */
void plb_state_set(plb_state_t *self, const int32_t *to);

void plb_state_put(plb_state_t *self, int32_t i, int32_t r); /* object i must have no rank */
void plb_state_take(plb_state_t *self, int32_t i);           /* object i must have one */

static inline void plb_state_move(plb_state_t *self, int32_t i, int32_t to)
{
    plb_state_take(self, i);
    plb_state_put(self, i, to);
}

/** Return how much less the edges of object i on rank r cost because their other ends are on other
 * ranks of r's node.  own: count only the edges for which rank r pays. */
double plb_state_near(const plb_state_t *self, int32_t i, int32_t r, bool own);

/** Find the slowest ranks of each component and whether limits are kept; return the value. */
double plb_state_value(plb_state_t *self);

/** Return the work of each rank in component 0 if all ranks ended together. */
double plb_state_mean(const plb_state_t *self);

/** Return the value that results if `value` is extended by component k, whose slowest rank takes
 * `seconds`. */
static inline double plb_state_add(const plb_state_t *self, double value, double seconds,
                                   int32_t k)
{
    if (!self->of.kinds) {
        return value + seconds;
    }
    const double x = seconds * self->per[k];
    return value > x ? value : x;
}

static inline double plb_state_load(const plb_state_t *self, int64_t i, int32_t k)
{
    return self->in->load[i * self->d + k];
}

/** Return the block of object i; -1: none. */
static inline int32_t plb_state_block(const plb_state_t *self, int64_t i)
{
    return self->slot == NULL ? -1 : self->in->block[i];
}

/** Return how many objects on rank r use the block. */
int32_t plb_state_uses(const plb_state_t *self, int32_t block, int32_t r);

/** Return the work that a block adds to rank r. */
static inline double plb_state_homing(const plb_state_t *self, int32_t block, int32_t r)
{
    const plb_snapshot_t *in = self->in;
    return in->home == NULL || in->home[block] == r
               ? 0.0
               : self->of.delta * (double)in->block_bytes[block];
}

/** Return the bytes that object i, which is not on rank r, would need there. */
int64_t plb_state_bytes(const plb_state_t *self, int64_t i, int32_t r);

static inline bool plb_state_has_room(const plb_state_t *self, int64_t i, int32_t r)
{
    return self->left == NULL || plb_state_bytes(self, i, r) <= self->left[r];
}

/* ---- improve.c ------------------------------------------------------------------------------ */

/* The local search of all strategies whose objective is more than the load: it improves a
 * placement by steps between two ranks, until its value is low enough. */

/* The families of steps: an object moves; two objects are exchanged; sets of objects are exchanged
 * (only where nothing but loads counts: transfer.c). */
enum { PLB_MOVES = 1, PLB_SWAPS = 2, PLB_SETS = 4, PLB_ALL_STEPS = 7 };

typedef struct plb_aim {
    double value;      /* the search ends at this value */
    unsigned families; /* families of steps that may be made */
    bool kicks;        /* whether the search goes on after random changes, if objects are few */
    uint64_t seed;     /* seed of the random changes */
} plb_aim_t;

/* A value that is not lower by this fraction is not worth migrations, and BestFitLB may leave as
 * much imbalance (max/mean - 1).
 * tuned: fraction; benchmarks/front.py asks for 5e-4; with 8e-4, 10 % fewer migrations */
#define PLB_WORTH 4e-4

/* Numbers that a search examines at most, in a few tenths of a second.
 * tuned: numbers; with a tenth, placements of up to 50,000 objects are the same; with 3e6, 10^5
 * items in 10^4 bins (plb_bins_pack) end 1.0 % above the bound, not 0.1 % */
enum { PLB_WORK = 50000000 };

/* Ranks that are tried for a step.
 * tuned: ranks; with 4, placements with few objects per rank need 8 % more migrations, or end
 * 0.2 % slower; with 64, the search takes a third longer */
enum { PLB_TRIES = 16 };

/* A search goes on only if less than this part of what is too much is left: of the excess of a
 * rank (transfer.c), of the overloaded ranks (gossip.c).
 * tuned: fraction; transfer.c: with 0.7, the slowest rank takes 0.0002 longer, with 1 to 2 % fewer
 * migrations; gossip.c: with 1, 14 % more migrations */
#define PLB_PART 0.9

/** Improve the placement.  While some ranks exceed their memory limits, steps reduce this excess;
 * then they keep the limits and lower the value (plb_state_value).  Of steps that gain the same,
 * the one that keeps more communication inside the ranks is made, then the one that was found
 * first.  The search also ends if no step helps, if the value hardly falls, or after a fixed
 * amount of work (a few tenths of a second). */
int plb_improve(plb_state_t *state, const plb_aim_t *aim, plb_err_t *err);

/* ---- transfer.c ----------------------------------------------------------------------------- */

/* The steps of improve.c where a rank's time is its load, and nothing else: ranks above a limit
 * give load to ranks below it. */

/** Reduce the time of the slowest rank to `limit` seconds, or as far as the steps of `families`
 * (plb_improve) allow.  The state has one component, and neither messages nor blocks; the memory
 * limits hold before and after.  *work: number of sets of objects that may still be examined. */
int plb_transfer(plb_state_t *state, double limit, unsigned families, double *work,
                 plb_err_t *err);

/* ---- starts.c ------------------------------------------------------------------------------- */

/* Placements from which a search starts (plb_improve). */

/** Begin (again) with every object on its present rank; state->fits: whether limits are kept. */
void plb_start_present(plb_state_t *state);

/** Place the objects by their work.  An object stays if its rank then has at most `overload` times
 * the goal in each component (0: no object stays).  Each other object, the heaviest first, goes to
 * the rank whose largest t[k][r] / goal[k] is then smallest.  PLB_ERR_INFEASIBLE: an object fits
 * nowhere. */
int plb_start_fit(plb_state_t *state, double overload, plb_err_t *err);

/** Place all objects from scratch, with memory as the only aim: the objects of a block together,
 * on the rank that then has the most memory left; if possible, objects stay where they fit.  If no
 * placement is found, take the present one: then state->fits is false, and *err says why. */
int plb_start_packed(plb_state_t *state, plb_err_t *err);

/** Bring the placement rank[n_objects] within the memory limits, if there are any.  Ranks above
 * their limit give the objects with the least load per byte to the ranks with the most memory
 * left.  If the objects do not fit there, take the present placement, or one by memory alone. */
int plb_start_repaired(const plb_snapshot_t *in, int32_t *rank, plb_err_t *err);

/* ---- strategies that others use ------------------------------------------------------------- */

/** If a lower bound by counting pieces shows that no placement meets *limit (seconds of the
 * slowest rank), raise *limit to just above the bound, where a search can usually meet it.
 * 40 or more objects per rank hardly limit the balance: then *limit is not changed. */
int plb_bound_raise(const plb_snapshot_t *in, double *limit, plb_err_t *err);

/* The lowest limit that can be met is searched to within this fraction: with 0.003, BestFitLB
 * moves 58 % of 6,000 objects on 1,000 ranks, not 55 %; with 0.01, the slowest rank takes 0.2 to
 * 0.5 % longer. */
#define PLB_CLOSE (10.0 * PLB_WORTH)

/* Menon 2.3.1: "typically set as 1.003 times the average load". */
#define PLB_REFINE_OVERLOAD 1.003

/** RefineLB: refine rank[n_objects] by load, until no rank is above `overload` times the average.
 * rank[] keeps the memory limits, and does not change if the slowest rank's time would not fall by
 * a ten-thousandth.  families: the families of steps (plb_improve). */
int plb_refine(const plb_snapshot_t *in, double overload, unsigned families, uint64_t seed,
               int32_t *rank, plb_err_t *err);

/** CommAwareRefineLB: move objects to the ranks of their communication partners.
 * exchanges: whether to reduce a remaining excess by moves and exchanges (plb_improve).
 * cost[2]: seconds per message and per byte, part of the sender's time (RefineCommLB); NULL:
 * messages take no time. */
int plb_refine_comm(const plb_snapshot_t *in, double overload, bool exchanges, const double *cost,
                    int32_t *rank, plb_err_t *err);

/** Move objects by the rule of CommAwareRefineLB (refine_comm.c) from ranks above `limit` seconds
 * to ranks that stay below it; write the placement to rank[n_objects]. */
int plb_shed(const plb_snapshot_t *in, double limit, int32_t *rank, plb_err_t *err);

/* ---- partitioners --------------------------------------------------------------------------- */

/* What strategies that use a partitioner have in common: objects of a snapshot become vertices,
 * ranks become parts.
 *
 * A vertex is an object that may migrate.  If some objects may not migrate, and the partitioner
 * takes fixed vertices, each rank has an additional vertex for all its fixed objects.  This vertex
 * has no weight, is fixed in the rank's part, and attracts the objects that communicate with it.
 * A part's share follows from the rank's speed, background and fixed objects. */

typedef struct plb_parts {
    plb_problem_t problem;
    plb_question_t question;
    int32_t n;          /* number of vertices that are objects; the ranks' vertices follow */
    double per_byte;    /* edge or net weight for each byte that is sent in an iteration */
    int32_t *vertex;    /* [n_objects] vertex of each object; -1: the object has none */
    int32_t *node;      /* [n_ranks] index of each rank's node, from 0; NULL: the snapshot has no
                           distances, or no ranks share a node */
    plb_groups_t ranks; /* the ranks of each node */
    int32_t n_nodes;
    /* arrays that `question` borrows */
    int32_t *weight, *fixed, *old, *old_cost;
    double *share;
    int32_t *start, *to, *edge_weight;
    int32_t *net_start, *pin, *net_weight;
} plb_parts_t;

/** Set vertices, weights and shares.  `self` owns its arrays and borrows `in`. */
int plb_parts_init(plb_parts_t *self, const plb_snapshot_t *in, bool takes_fixed, double imbalance,
                   uint64_t seed, plb_err_t *err);
void plb_parts_free(plb_parts_t *self);

/** Add the edges between vertices.  The weight of an edge is the sum of the bytes in both
 * directions; a multicast is an edge to each receiver.  The neighbours of a vertex are ascending.
 */
int plb_parts_graph(plb_parts_t *self, plb_err_t *err);

/** Add the cost of migrations.  Call this after the edges or nets were added.  An object that
 * leaves its rank costs its bytes once, and communication costs its bytes `iterations` times.  If
 * the snapshot has no `bytes`, each object costs the mean bytes that an object sends in one
 * iteration. */
int plb_parts_keep(plb_parts_t *self, double iterations, plb_err_t *err);

/** Renumber parts that have equal shares (and, with distances, are on one node) such that few
 * bytes move (plb_relabel); an object counts as its `bytes` plus 1, or as 1 byte if the snapshot
 * has no `bytes`.  Does nothing if there are fixed vertices, which determine the numbers. */
int plb_parts_relabel(const plb_parts_t *self, int32_t *part, plb_err_t *err);

/** Let a library, given by name, compute part[]: with distances, first the node of each vertex,
 * then its rank.  PLB_ERR_MISSING: the library was not loaded. */
int plb_parts_ask(const plb_parts_t *self, const char *library, int32_t *part, plb_err_t *err);

/** Set the rank of each object to its part.  Then, if possible, bring all ranks below `imbalance`
 * times the average: first like CommAwareRefineLB without exchanges, then like RefineSwapLB.
 * Memory limits are kept. */
int plb_parts_place(const plb_parts_t *self, const int32_t *part, double imbalance, int32_t *out,
                    plb_err_t *err);

#define PLB_PARAM_IMBALANCE                                                                       \
    {                                                                                             \
        "imbalance", "", "largest allowed ratio of a rank's time to the average", 1.03, 1.001,    \
            10.0                                                                                  \
    }

/* ---- gossip --------------------------------------------------------------------------------- */

/* The agents of GossipLB, for strategies that use them. */

enum { PLB_GOSSIP_MOST_FAN_OUT = 64 };

/* Parameters of the agents; a strategy that uses these agents lists them first in its table. */
enum {
    PLB_GOSSIP_OVERLOAD,
    PLB_GOSSIP_FAN_OUT,
    PLB_GOSSIP_ROUNDS,
    PLB_GOSSIP_ITERATIONS,
    PLB_GOSSIP_N_PARAMS
};
/* clang-format off */
#define PLB_GOSSIP_PARAMS                                                                         \
    {"overload", "x average", "a rank above this multiple of the average gives away objects",     \
     1.01, 1.0, 1e6},                                                                             \
    {"fan_out", "", "number of ranks that a rank informs, in each round, about ranks that can "   \
     "take load", 4, 1, PLB_GOSSIP_MOST_FAN_OUT},                                                 \
    {"rounds", "", "largest number of rounds of gossip before objects are offered", 3, 1, 64},    \
    {"iterations", "", "largest number of iterations (an iteration is some rounds of gossip, "    \
     "then a round of offers); the same number again if a second search looks for fewer "         \
     "migrations", 100, 1, 1e6}
/* clang-format on */

/* What this rank knows of a rank that can take load. */
typedef struct plb_receiver {
    int32_t rank;
    bool has_ceiling; /* whether a NOTE_CEILING was sent to that rank */
    double room;      /* load that the rank can take */
    int64_t memory;   /* bytes that the rank can take */
} plb_receiver_t;

typedef struct plb_gossip {
    plb_agent_t agent;
    plb_rng_t rng;
    double overload;     /* the parameter `overload` */
    double limit;        /* seconds that no rank should exceed */
    double allowed;      /* load with which this rank would take `limit` seconds */
    double n_overloaded; /* number of overloaded ranks one iteration ago */
    double failed;       /* the highest limit that was not reached; 0: none */
    int fan_out, n_rounds, n_iterations;
    /* within_node: gossip and offers stay within each node; false: they go to all ranks.
     * swapping: objects are also offered in exchange for smaller ones. */
    bool within_node, swapping;
    bool asking; /* in this iteration, overloaded ranks ask random ranks what they can take */
    /* by_node: within_node is true at first.  from_home: if the first limit was not reached, the
     * strategy begins again from the placement before the LB step (conclude in gossip.c). */
    bool by_node, from_home;
    bool again;         /* whether the strategy has begun again: a second search is under way */
    plb_holding_t best; /* if `again`: this rank's objects in the placement of the first search */
    double n_away;      /* if `again`: number of objects of all ranks that migrate in `best` */
    int step, iteration, stalled; /* step: round of the iteration (gossip, offers or answers);
                                     stalled: iterations in a row without progress */
    int64_t taken;                /* number of objects that this rank took in this iteration */
    plb_receiver_t *known;        /* [n_known] ranks that can take load */
    int32_t n_known, most_known;
    int64_t n_heard; /* number of receivers of which this rank has heard in this iteration */
} plb_gossip_t;

extern const plb_agent_type_t plb_gossip_agent;
