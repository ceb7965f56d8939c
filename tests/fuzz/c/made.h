/* A decider with a trigger, strategies and parameters from the feed. */
#ifndef FUZZ_MADE_H
#define FUZZ_MADE_H

#include "feed.h"
#include "plb.h"

enum { MADE_PARAMS = 16, MADE_CANDIDATES = 24 };

typedef struct made {
    plb_trigger_t trigger;
    plb_decider_t decider;
    double params[MADE_CANDIDATES][MADE_PARAMS], selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
    plb_candidate_strategy_t candidates[MADE_CANDIDATES];
    uint8_t how; /* the byte with the decider's options; its bits 16 and 32 are the caller's */
} made_t;

/** Make the decider, with strategies that need no library.  Free `self` also after a failure. */
int made_init(made_t *self, feed_t *feed, int32_t n_ranks, plb_err_t *err);
void made_free(made_t *self);

#endif
