/* Waiting that leaves the core to other ranks.  If ranks share a core or a quota, a rank that
 * spins takes time from the rank that it waits for. */
#pragma once

#include <stdint.h>

#include "base/err.h"

enum {
    /* spin until this time since the start: twice the time of a small Iallreduce on two cores */
    PLB_WAIT_SPIN_NS = 30000,
    PLB_WAIT_YIELD_NS = 100000,  /* then yield the core, until this time since the start */
    PLB_WAIT_SLEEP_NS = 20000,   /* then sleep: this long at first, later longer */
    PLB_WAIT_MOST_NS = 200000,   /* longest sleep: the end of the wait may be noticed this late */
    PLB_WAIT_TICK_NS = 20000000, /* time between two checks for signals */
};

typedef struct plb_wait {
    int64_t start, ticked, sleep; /* ns: begin of the wait; most recent check for signals; length
                                     of the next sleep */
    plb_tick_fn tick;             /* checks for signals; NULL: none */
    void *arg;
} plb_wait_t;

/* What is said if a rank waits for the other ranks for longer than PLB_WAIT_PATIENCE_NS. */
static const int64_t PLB_WAIT_PATIENCE_NS = 10000000000;
typedef struct plb_patience {
    void (*say)(void *arg); /* NULL: nothing is said */
    void *arg;
} plb_patience_t;

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg);

/** Wait a little between two tests of a condition.  Returns PLB_OK, or the code of `tick`. */
int plb_wait_pause(plb_wait_t *self);
