/* A heap of items with the smallest on top; ties have a rule (item.h), so the order of pops
 * depends only on the items.  For a max-heap, negate the keys.  Each node has four children, which
 * fill 64 bytes; so the heap has half the depth of a binary heap.  The caller owns the array of
 * items, which must be large enough for all items that will be pushed. */
#pragma once

#include "base/item.h"

enum { PLB_HEAP_ARITY = 4 };

typedef struct plb_heap {
    plb_item_t *item; /* the top is item[0] */
    int32_t n;
} plb_heap_t;

/** Replace item `at` by `moving`, and let it sink to its place. */
static inline void plb_heap_sink(plb_heap_t *self, int32_t at, plb_item_t moving)
{
    plb_item_t *item = self->item;
    for (;;) {
        const int64_t first = (int64_t)PLB_HEAP_ARITY * at + 1;
        if (first >= self->n) {
            break;
        }
        const int64_t end = first + PLB_HEAP_ARITY < self->n ? first + PLB_HEAP_ARITY : self->n;
        int64_t least = first;
        for (int64_t i = first + 1; i < end; i++) {
            least = plb_item_before(item[i], item[least]) ? i : least;
        }
        if (!plb_item_before(item[least], moving)) {
            break;
        }
        item[at] = item[least];
        at = (int32_t)least;
    }
    item[at] = moving;
}

/** Make a heap of item[n], which the caller has written. */
static inline void plb_heap_build(plb_heap_t *self)
{
    for (int32_t at = (self->n + PLB_HEAP_ARITY - 2) / PLB_HEAP_ARITY; at-- > 0;) {
        plb_heap_sink(self, at, self->item[at]);
    }
}

static inline void plb_heap_push(plb_heap_t *self, plb_item_t moving)
{
    int32_t at = self->n++;
    while (at > 0) {
        const int32_t parent = (at - 1) / PLB_HEAP_ARITY;
        if (!plb_item_before(moving, self->item[parent])) {
            break;
        }
        self->item[at] = self->item[parent];
        at = parent;
    }
    self->item[at] = moving;
}

/** Change the key of the top item, which must exist, and let the item sink to its place. */
static inline void plb_heap_rekey(plb_heap_t *self, double key)
{
    plb_heap_sink(self, 0, (plb_item_t){key, self->item[0].id});
}

/** Remove and return the top item, which must exist. */
static inline plb_item_t plb_heap_pop(plb_heap_t *self)
{
    const plb_item_t top = self->item[0];
    if (--self->n > 0) {
        plb_heap_sink(self, 0, self->item[self->n]);
    }
    return top;
}
