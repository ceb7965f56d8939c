/* Heaps of items with the smallest on top; ties have a rule (item.h), so the order of pops depends
 * only on the items.  For a max-heap, negate the keys.  Each node has four children, which fill 64
 * bytes; so a heap has half the depth of a binary heap.  The caller owns the array of items, which
 * must be large enough for all items that will be pushed.
 *
 * In a plb_heap_t, only the top item can be changed or removed, and ids may repeat.  In a
 * plb_queue_t, any item can: it is found by its id. */
#pragma once

#include <stddef.h>

#include "base/item.h"

enum { PLB_HEAP_ARITY = 4 };

typedef struct plb_heap {
    plb_item_t *item; /* the top is item[0] */
    int32_t n;
} plb_heap_t;

typedef struct plb_queue {
    plb_item_t *item; /* [n] the top is item[0] */
    int32_t *at;      /* [largest id + 1] index of each id's item; -1: it is not in the queue */
    int32_t n;
} plb_queue_t;

/* The functions below with a name that ends in _ serve heaps, without `at`, and queues. */
static inline void plb_heap_set_(plb_item_t *item, int32_t *at, int64_t i, plb_item_t moving)
{
    item[i] = moving;
    if (at != NULL) {
        at[moving.id] = (int32_t)i;
    }
}

/* Replace item i by `moving`, and let it sink to its place. */
static inline void plb_heap_sink_(plb_item_t *item, int32_t *at, int32_t n, int64_t i,
                                  plb_item_t moving)
{
    for (;;) {
        const int64_t first = PLB_HEAP_ARITY * i + 1;
        if (first >= n) {
            break;
        }
        const int64_t end = first + PLB_HEAP_ARITY < n ? first + PLB_HEAP_ARITY : n;
        int64_t least = first;
        for (int64_t k = first + 1; k < end; k++) {
            least = plb_item_before(item[k], item[least]) ? k : least;
        }
        if (!plb_item_before(item[least], moving)) {
            break;
        }
        plb_heap_set_(item, at, i, item[least]);
        i = least;
    }
    plb_heap_set_(item, at, i, moving);
}

/* Replace item i by `moving`, and let it rise to its place. */
static inline void plb_heap_rise_(plb_item_t *item, int32_t *at, int32_t i, plb_item_t moving)
{
    while (i > 0) {
        const int32_t parent = (i - 1) / PLB_HEAP_ARITY;
        if (!plb_item_before(moving, item[parent])) {
            break;
        }
        plb_heap_set_(item, at, i, item[parent]);
        i = parent;
    }
    plb_heap_set_(item, at, i, moving);
}

/* ---- heaps ---------------------------------------------------------------------------------- */

/** Make a heap of item[n], which the caller has written. */
static inline void plb_heap_build(plb_heap_t *self)
{
    for (int32_t i = (self->n + PLB_HEAP_ARITY - 2) / PLB_HEAP_ARITY; i-- > 0;) {
        plb_heap_sink_(self->item, NULL, self->n, i, self->item[i]);
    }
}

static inline void plb_heap_push(plb_heap_t *self, plb_item_t moving)
{
    plb_heap_rise_(self->item, NULL, self->n++, moving);
}

/** Change the key of the top item, which must exist, and let the item sink to its place. */
static inline void plb_heap_rekey(plb_heap_t *self, double key)
{
    plb_heap_sink_(self->item, NULL, self->n, 0, (plb_item_t){key, self->item[0].id});
}

/** Remove and return the top item, which must exist. */
static inline plb_item_t plb_heap_pop(plb_heap_t *self)
{
    const plb_item_t top = self->item[0];
    if (--self->n > 0) {
        plb_heap_sink_(self->item, NULL, self->n, 0, self->item[self->n]);
    }
    return top;
}

/* ---- queues --------------------------------------------------------------------------------- */

/** Replace item i by another one, which may be smaller or larger. */
static inline void plb_queue_replace_(plb_queue_t *self, int32_t i, plb_item_t moving)
{
    if (plb_item_before(moving, self->item[i])) {
        plb_heap_rise_(self->item, self->at, i, moving);
    } else {
        plb_heap_sink_(self->item, self->at, self->n, i, moving);
    }
}

/** Change the key of an id; an id that is not in the queue is added. */
static inline void plb_queue_set(plb_queue_t *self, int32_t id, double key)
{
    const int32_t i = self->at[id];
    const plb_item_t item = {key, id};
    if (i < 0) {
        plb_heap_rise_(self->item, self->at, self->n++, item);
    } else {
        plb_queue_replace_(self, i, item);
    }
}

/** Remove an id, which must be in the queue. */
static inline void plb_queue_drop(plb_queue_t *self, int32_t id)
{
    const int32_t i = self->at[id];
    self->at[id] = -1;
    if (i < --self->n) {
        plb_queue_replace_(self, i, self->item[self->n]);
    }
}

/** Remove all ids. */
static inline void plb_queue_clear(plb_queue_t *self)
{
    while (self->n > 0) {
        self->at[self->item[--self->n].id] = -1;
    }
}
