/* The states of the search (optimum_recorded.h), and a hash table of their placements. */
#pragma once

#include "measure/estimate.h"
#include "replay/optimum_lookahead.h"

enum { ROWS = PLB_ESTIMATE_HERE };

typedef struct state {
    double time;   /* seconds of the phases and LB steps that lead to this state */
    double least;  /* seconds: lower bound for schedules by way of this state; < 0: not computed */
    int64_t step;  /* last LB step: index among all LB steps of the search; -1: none */
    int64_t known; /* the last phase whose seconds are in `ring`, plus 1 */
    uint64_t hash; /* hash of the placement */
    bool gone;     /* whether a faster state with the same ranks has replaced it */
} state_t;

/* A state with its sort key; ties: the state with the smaller index comes first. */
typedef struct ranked {
    double value;
    int64_t state;
} ranked_t;

typedef struct states {
    const layout_t *lay;
    state_t *state;
    int32_t *rank;     /* [room, n_slots] rank of each object in each state */
    double *ring;      /* [room, RING] seconds of the next phases in each state */
    double *estimates; /* [room, ROWS, n_slots] load estimates; NULL: all states have the same */
    ranked_t *order;   /* [room] scratch memory to sort the states */
    int64_t n, room;
    int32_t *bucket; /* [n_buckets, a power of two] hash table: index of a state; -1: free */
    int64_t n_buckets, buckets_room;
    bool left_out; /* whether a state was dropped that might have led to the best schedule */
} states_t;

static inline int32_t *ranks_of(const states_t *self, int64_t s)
{
    return self->rank + s * self->lay->n_slots;
}

static inline double *ring_of(const states_t *self, int64_t s)
{
    return self->ring + s * RING;
}

static inline double *estimates_of(const states_t *self, int64_t s)
{
    return self->estimates + s * ROWS * self->lay->n_slots;
}

uint64_t plb_hash_of_ranks(const int32_t *rank, int64_t n);

int plb_states_reserve(states_t *self, int64_t n, plb_err_t *err);
void plb_states_free(states_t *self);
void plb_states_copy(states_t *self, int64_t to, int64_t from);

/** Build the hash table of states by their placements, with space for `more` additional states.
 * change: whether placements may have become equal; then keep the fastest of the equal states. */
int plb_states_list(states_t *self, int64_t more, bool change, plb_err_t *err);

/** Return the bucket of the state with these ranks, or the free bucket for it. */
int64_t plb_states_look_up(const states_t *self, const int32_t *rank, uint64_t hash);

/** Set left_out if two states with the same placement have different load estimates. */
void plb_states_compare(states_t *self, int64_t a, int64_t b);

/** Let objects arrive and leave in all states, at the beginning of a section (section_t). */
void plb_states_change_objects(states_t *self, int64_t section);
