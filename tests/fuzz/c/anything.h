/* A snapshot with any parts, and a call of a strategy with checks of its answer. */
#ifndef FUZZ_ANYTHING_H
#define FUZZ_ANYTHING_H

#include "feed.h"
#include "place/strategy.h"

typedef struct anything {
    plb_snapshot_t snapshot;
    void *owned[32];
    int n_owned;
} anything_t;

/** Make a snapshot of at most `n` objects, `p` ranks and `m` edges, which owns its arrays.  It may
 * be invalid (plb_snapshot_check). */
void anything_init(anything_t *self, feed_t *feed, uint32_t n, uint32_t p, uint32_t m);
void anything_free(anything_t *self);

/** Choose a strategy by one byte of the feed.  One that needs a library asks one of library.h. */
const plb_strategy_t *anything_strategy(feed_t *feed);

typedef struct placed {
    int code;
    double seconds; /* processor time of the strategy alone */
    int64_t migrations;
} placed_t;

/** Run the strategy with parameters from the feed (NULL: the defaults).  If it gives a placement,
 * check it. fail_at: the argument of plb_mem_fail_at. */
placed_t anything_place(const plb_strategy_t *strategy, const plb_snapshot_t *in, feed_t *feed,
                        int64_t fail_at);

#endif
