/* A number with an id, e.g. a load and its object: the entries of heaps and sorts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct plb_item {
    double key;
    int32_t id;
} plb_item_t;

/** Whether a comes before b: by key, then by id. */
static inline bool plb_item_before(plb_item_t a, plb_item_t b)
{
    return a.key < b.key || (a.key == b.key && a.id < b.id);
}
