/* The receivers of GossipLB, i.e. the ranks that can take load: how ranks tell each other about
 * receivers, remember receivers, and ask for receivers. */
#pragma once

#include "place/kit/gossip.h"

/* Kinds of notes; a strategy's own kinds begin at PLB_NOTE_NEXT. */
enum {
    PLB_NOTE_ROOM, /* `rank`, which has `id` objects, can take `load` and `memory` */
    PLB_NOTE_ASK,  /* which ranks do you know that can take load? */
    PLB_NOTE_NEXT,
};

/** Set n_rounds to `most_rounds`, or less if fewer rounds reach all ranks; allocate `known`. */
int plb_receivers_init(plb_gossip_t *self, int most_rounds, plb_err_t *err);
void plb_receivers_forget(plb_gossip_t *self);
/** Remember the receivers that the notes in[n_in] are about. */
void plb_receivers_hear(plb_gossip_t *self, const plb_note_t *in, int64_t n_in);
/** Tell random other ranks about the known receivers, and about this rank if it is one. */
int plb_receivers_spread(plb_gossip_t *self, plb_err_t *err);
int plb_receivers_ask(plb_gossip_t *self, plb_err_t *err);
/** Answer the ranks whose notes in[n_in] ask for receivers. */
int plb_receivers_reply(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err);
