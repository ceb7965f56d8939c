/* A small system that runs the consensus machines of csrc/decide/consensus.c, for the explorer
 * and the random walks of interleave.c.
 *
 * The objects form a line or a ring, and each rank has consecutive ones.  In each iteration an
 * object sends a message to its neighbours when it begins, and needs theirs to end.  The results
 * of reductions reach a rank at any later moment at which it serves the balancer; results of one
 * kind come in order.  Every step makes some counter greater and none smaller, so each run is
 * finite: a run without a next step has either ended or hangs.
 *
 * There are two kinds of program.  In one, pylb does all waiting, so a rank always serves.  The
 * other has blocking receives of its own (`blocked`): a rank begins the iteration of all its
 * objects, sends their messages, then receives for one object after the other and ends its
 * iteration; the rank serves only at AtSync.
 */
#ifndef CONSENSUS_MODEL_H
#define CONSENSUS_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Rules of csrc/decide/consensus.c that a test can leave out. */
enum {
    ABLATE_PAUSE = 1, /* no pause state: objects go on while the final iteration is unknown */
    ABLATE_HOLD = 2,  /* statistics are taken while a round is open */
    ABLATE_EQUAL = 4, /* the iteration of the statistics is compared with the final one by == */
    ABLATE_ENDED = 8, /* an LB step may take place at the end of the run or after it */
};
extern unsigned model_ablated;
#define PLB_ABLATE(part) ((model_ablated & ABLATE_##part) != 0)

#include "decide/consensus.h"

enum { MAX_RANKS = 8, MAX_OBJECTS = 16, MAX_ITERATIONS = 40 };

#define WISH_UNSET INT64_C(-2) /* no rank has seen these statistics yet */

typedef struct model {
    int ranks, objects, iterations; /* objects: number on each rank */
    int lag;
    int early;   /* rank 0 ends this many iterations before the others */
    int changes; /* number of wishes of the trigger, for any iteration, at any time */
    int churn;   /* how often an object leaves or joins again, at any moment */
    int fails;   /* number of ranks that fail: they lose their objects and have ended */
    int64_t script[MAX_ITERATIONS + 2]; /* if `changes` is 0: [i] the trigger's wish at the
                                           statistics of iteration i */
    bool ring;
    bool blocked;
    bool migrate; /* at an LB step, the first object of every second rank goes to the next rank */
} model_t;

typedef struct system {
    plb_consensus_t rank[MAX_RANKS];
    plb_consensus_root_t root[MAX_RANKS];
    int64_t reach[MAX_RANKS][MAX_OBJECTS]; /* the storage of rank[].reach */
    int64_t wish[MAX_ITERATIONS + 2];
    int64_t top[2];            /* maximum contributed to round n, at n % 2 */
    int changes, churn, fails; /* how many may still come */
    int64_t failed[MAX_RANKS]; /* number of statistics posted before the rank failed */
    int8_t owner[MAX_OBJECTS], slot[MAX_OBJECTS]; /* slot is -1: the object has left */
    bool serving[MAX_RANKS];
} system_t;

typedef enum step_kind {
    STEP_REACH,    /* object `who` reaches AtSync */
    STEP_GO,       /* object `who` begins its next iteration */
    STEP_START,    /* blocked: rank `who` begins the next iteration with all its objects */
    STEP_ENTER,    /* blocked: rank `who` leaves AtSync for the receives of its next object */
    STEP_STATS,    /* rank `who` sees the next statistics; the trigger wishes `wish` */
    STEP_MAXIMUM,  /* the root, on rank `who`, sees the maximum of its open round */
    STEP_BALANCED, /* all ranks have balanced */
    STEP_LEAVE,    /* object `who` leaves */
    STEP_JOIN,     /* object `who` joins again */
    STEP_FAIL,     /* rank `who` fails */
    N_STEP_KINDS,
} step_kind_t;

typedef struct step {
    uint8_t kind;
    int8_t who;
    int16_t wish; /* -1: none; MAX_ITERATIONS + 1: PLB_NEVER */
} step_t;

enum { MAX_STEPS = 512 };

void system_init(const model_t *m, system_t *s);
void system_copy(system_t *to, const system_t *from);

/** List all possible steps; return their number. */
int system_steps(const model_t *m, const system_t *s, step_t steps[MAX_STEPS]);

/** Take a step.  If the result is not PLB_OK, it has violated a promise of the protocol, which
 * `err` describes. */
int system_take(const model_t *m, system_t *s, step_t step, plb_err_t *err);

/** Check a state in which no step is possible: PLB_OK if the run has ended correctly. */
int system_check_end(const model_t *m, const system_t *s, plb_err_t *err);

void system_print(const model_t *m, const system_t *s, FILE *out);

/** Pack a state into a few words; different states that can be reached give different words. */
enum { STATE_WORDS = 4 };
void system_pack(const model_t *m, const system_t *s, uint64_t key[STATE_WORDS]);
void system_unpack(const model_t *m, system_t *s, const uint64_t key[STATE_WORDS]);

#endif
