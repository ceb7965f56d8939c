/* Distributed strategies: placements that no single rank computes.
 *
 * Each rank has an agent, a state machine without input or output.  All agents work in rounds: in
 * each, an agent reads the notes that were written to it in the round before, in order of their
 * senders, and the tally of all ranks; it changes what it holds and writes notes.  A driver
 * carries the notes: plb_rounds_run between virtual ranks in this process, the runtime between
 * ranks of MPI.  Nothing else happens between agents, so that both give the same placement to the
 * bit.
 *
 * An agent knows its own objects, the few numbers of the tally, and what notes have told it.
 */
#ifndef PLB_PLACE_KIT_AGENT_H
#define PLB_PLACE_KIT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "place/strategy.h"

/* What an agent is given of its rank.  Borrowed for as long as the agent lives. */
typedef struct plb_share {
    int32_t rank, n_ranks;
    const int32_t *neighbour; /* [n_neighbours] ranks of its node, ascending, itself among them */
    int32_t n_neighbours;     /* 0: all ranks are on one node */
    double speed, background;
    int64_t memory_limit; /* bytes; negative: none */

    int64_t n;                 /* objects */
    const int64_t *id;         /* [n] their places in the order of all objects, ascending */
    const double *load;        /* [n] */
    const int64_t *memory;     /* [n] or NULL */
    const uint8_t *migratable; /* [n] or NULL */

    int64_t n_edges;               /* what these objects send per iteration */
    const int32_t *edge_object;    /* [n_edges] which of them sends, 0 ... n-1 */
    const int64_t *edge_peer_id;   /* [n_edges] to which object */
    const int32_t *edge_peer_rank; /* [n_edges] where that one lives */
    const double *edge_bytes;      /* [n_edges] */
} plb_share_t;

/* One line of a message: all that agents write to another in a round is one message. */
typedef struct plb_note {
    int32_t peer;   /* the receiving rank; on arrival: the sending one */
    int32_t kind;   /* the strategy's own; PLB_NOTE_HOME is common to all */
    int32_t rank;   /* an object's home (where it lives), or the rank that is spoken of */
    int32_t unused; /* instead of padding: notes travel as bytes */
    int64_t id;
    union { /* what is told of the object, or of the rank */
        double load, bytes, residual, seconds;
    };
    union {
        int64_t memory, other_id;
    };
} plb_note_t;

enum { PLB_NOTE_HOME = -1 }; /* the object of that id is with the sender now */

/* What all ranks learn of each other between two rounds: none negative, sums exact. */
enum { PLB_TALLY_SUMS = 2, PLB_TALLY_MAXIMA = 2, PLB_TALLY_COUNTS = 3 };
typedef struct plb_tally {
    double sum[PLB_TALLY_SUMS], max[PLB_TALLY_MAXIMA];
    int64_t count[PLB_TALLY_COUNTS];
} plb_tally_t;

/* An object that an agent holds. */
typedef struct plb_entry {
    int64_t id;
    double load;
    int64_t memory;
    int32_t home;
    int32_t pinned;
} plb_entry_t;

/* What every agent has; a strategy's own state begins with it. */
typedef struct plb_agent {
    const struct plb_agent_type *type;
    const plb_share_t *share;
    plb_entry_t *entry; /* [n] what it holds, in any order; pinned ones stay */
    int64_t n, room;
    double load;    /* of all that it holds */
    int64_t memory; /* likewise */

    /* The problem, the same on all ranks; from the first call of the strategy's own round on. */
    double average; /* time at which all ranks would end together */
    double mean_speed;
    double least; /* no placement ends before: average, longest object, fixed objects */

    plb_note_t *note; /* [n_notes] written in this round */
    int64_t n_notes, notes_room;
    plb_tally_t mine; /* contribution of this round */

    int stage;                    /* of the common part: agent.c */
    double before;                /* the longest time of a rank */
    double own_before, own_after; /* the time of this rank */
    bool done;
    int32_t *answer; /* [share->n] rank of each of its own objects; valid when done */
    int64_t held;    /* most entries and notes that it held at a time */
} plb_agent_t;

typedef struct plb_agent_type {
    size_t size; /* of the strategy's own state */
    /** After the common part is set up; `self` is zero behind it. */
    int (*start)(plb_agent_t *self, const plb_opts_t *opts, plb_err_t *err);
    /** One round.  *settled: this agent, like all others in the same round, has written nothing
     *  and wants what the agents hold now to be the placement. */
    int (*round)(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                 bool *settled, plb_err_t *err);
    /** Entries beside the objects. */
    int64_t (*known)(const plb_agent_t *self);
    void (*stop)(plb_agent_t *self);
} plb_agent_type_t;

/** The agent of one rank; NULL with an error.  Borrows `share` and opts->params. */
plb_agent_t *plb_agent_new(const plb_agent_type_t *type, const plb_share_t *share,
                           const plb_opts_t *opts, plb_err_t *err);
void plb_agent_destroy(plb_agent_t *self);

/** One round: `in` was written by others in the last one, in order of `peer`; `all` is the merged
 *  tally of the last one (zeros in the first).  Then note[n_notes] are to be carried, `mine` to be
 *  merged, until `done`, which comes for all agents in the same round. */
int plb_agent_round(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                    plb_err_t *err);

/* ---- for strategies ------------------------------------------------------------------------- */

static inline double plb_agent_time(const plb_agent_t *self, double load)
{
    return self->share->background + load / self->share->speed;
}

/** Load that fits on this rank until `time`; may be negative. */
static inline double plb_agent_allowed(const plb_agent_t *self, double time)
{
    return (time - self->share->background) * self->share->speed;
}

/** Bytes left; INT64_MAX without a limit. */
static inline int64_t plb_agent_room(const plb_agent_t *self)
{
    return self->share->memory_limit < 0 ? INT64_MAX : self->share->memory_limit - self->memory;
}

/** Write a note; the first to a peer in a round makes a message. */
int plb_agent_post(plb_agent_t *self, plb_note_t note, plb_err_t *err);

#define PLB_POST(self, err, ...) plb_agent_post((self), (plb_note_t){__VA_ARGS__}, (err))

/** Give entry k away in a note of that kind; the last entry takes its place. */
int plb_agent_give(plb_agent_t *self, int64_t k, int32_t to, int32_t kind, plb_err_t *err);

/** Hold the object of a note. */
int plb_agent_take(plb_agent_t *self, const plb_note_t *note, plb_err_t *err);

/** Order what it holds by load, equal loads as they were; pinned ones behind all others.
 *  *n_movable: how many are not pinned. */
int plb_agent_sort(plb_agent_t *self, int64_t *n_movable, plb_err_t *err);

#endif
