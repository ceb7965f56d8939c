/* The rows of an array that gather(), scatter() or an exchange copies, and their order. */
#pragma once

#include "bind/views.h"

typedef struct plb_py_order {
    const int32_t *index;  /* [n] items; NULL: all items, in the order of the array */
    const int64_t *offset; /* [items + 1] first row of each item; NULL: each item is one row */
    int64_t n, items;      /* length of `index`; number of items in the array */
} plb_py_order_t;

/** Return the number of rows of the array, and set *travel to the number of rows that are copied.
 * Return -1 if an index is not 0 ... items-1, or if `offset` does not rise from 0. */
static inline int64_t plb_py_order_rows(const plb_py_order_t *o, int64_t *travel)
{
    const int64_t rows = o->offset != NULL && o->items >= 0 ? o->offset[o->items] : o->items;
    bool good = o->offset == NULL || plb_py_rises(o->offset, o->items, rows);
    *travel = o->index != NULL ? 0 : rows;
    for (int64_t i = 0; good && o->index != NULL && i < o->n; i++) {
        const int32_t k = o->index[i];
        good = k >= 0 && k < o->items;
        *travel += !good ? 0 : o->offset != NULL ? o->offset[k + 1] - o->offset[k] : 1;
    }
    return good ? rows : -1;
}
