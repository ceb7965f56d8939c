/* Lists of the objects that some ranks may give away: one list per rank, sorted by load (ties: by
 * object) when it is first used.  Objects can be removed ("taken").
 *
 * An entry is an index into item[]; the entries of rank r are start[r] ... end[r] - 1. */
#pragma once

#include "base/item.h"
#include "place/kit/ranks.h"

typedef struct plb_offers {
    int64_t *start, *end; /* [p] */
    plb_item_t *item;     /* [entries] load and number of each object */
    uint8_t *sorted;      /* [p] whether the rank's list is sorted */
    int32_t *next, *prev; /* [entries] both are k if entry k was not taken; else the higher and
                             the lower entry at which a search from entry k goes on */
    plb_item_t *spare;    /* scratch memory to sort the longest list */
    uint32_t *bin;
} plb_offers_t;

/** List the objects that may migrate, have a load above 0 and at most `most`, and are on a rank r
 * whose gives[r] is not 0.  Borrows nothing.  Free `self` also after a failure. */
int plb_offers_init(plb_offers_t *self, const plb_ranks_t *ranks, const uint8_t *gives,
                    double most, plb_err_t *err);
void plb_offers_free(plb_offers_t *self);

/** Sort the entries of rank r, unless they are sorted.  Call this before the functions below. */
void plb_offers_sort(plb_offers_t *self, int32_t r);

/** Return the first entry of rank r, taken or not, with at least this load; end[r]: none. */
int64_t plb_offers_from(const plb_offers_t *self, int32_t r, double load);

/** Return entry k, or the nearest entry above it, that was not taken; end[r]: none. */
int64_t plb_offers_up(plb_offers_t *self, int32_t r, int64_t k);

/** Return entry k, or the nearest entry below it, that was not taken; start[r] - 1: none. */
int64_t plb_offers_down(plb_offers_t *self, int32_t r, int64_t k);

/** Return the last entry of rank r with at most this load, not taken; start[r] - 1: none. */
int64_t plb_offers_last(plb_offers_t *self, int32_t r, double load);

/* An exchange: one rank gives an entry, another rank gives one back. */
typedef struct plb_exchange {
    int64_t give, back; /* the two entries; -1: none */
    double sum;         /* load[give] - load[back]; 0: no exchange was found */
} plb_exchange_t;

/** Find an exchange of an entry of rank `from` in `gives` for an entry of rank `to` in `returns`,
 * for which both ranks have the memory.  Take the first exchange with a difference of loads in low
 * ... high, else the exchange with the largest difference up to `high`.  Tries at most `probes`
 * objects of rank `to`, from the lightest possible one on. */
plb_exchange_t plb_offers_exchange(const plb_ranks_t *ranks, plb_offers_t *gives, int32_t from,
                                   plb_offers_t *returns, int32_t to, double low, double high,
                                   int64_t probes);

static inline void plb_offers_take(plb_offers_t *self, int64_t k)
{
    self->next[k] = (int32_t)(k + 1);
    self->prev[k] = (int32_t)(k - 1);
}
