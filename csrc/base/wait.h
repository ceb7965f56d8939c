/* Polite waiting.  There may be more ranks than cores, or a quota may limit ranks to a share of a
 * core; then a rank that spins takes time from the rank that it waits for. */
#ifndef PLB_BASE_WAIT_H
#define PLB_BASE_WAIT_H

#include <stdint.h>

#include "base/err.h"

enum {
    PLB_WAIT_SPIN_NS = 30000,    /* spin first: about twice a small Iallreduce on two cores */
    PLB_WAIT_YIELD_NS = 100000,  /* then yield the core, but stay runnable */
    PLB_WAIT_SLEEP_NS = 20000,   /* then sleep, at first this long */
    PLB_WAIT_MOST_NS = 200000,   /* and at most this long: the delay until an arrival is noticed */
    PLB_WAIT_TICK_NS = 20000000, /* look for signals this often */
};

typedef struct plb_wait {
    int64_t start, ticked, sleep;
    plb_tick_fn tick; /* or NULL */
    void *arg;
} plb_wait_t;

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg);

/** Wait a little between two tests.  Returns the tick's code if that is not zero. */
int plb_wait_pause(plb_wait_t *self);

#endif
