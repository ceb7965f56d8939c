#pragma once

#include <stdint.h>

#include "base/err.h"

/* Item i gains gain[e] > 0 at place[e], for e from start[i] to start[i + 1] - 1. */
typedef struct plb_gains {
    int32_t n_items, n_places;
    const int64_t *start;
    const int32_t *place;
    const double *gain;
} plb_gains_t;

/** Find place[n_items], the place of each item or -1, with the largest sum of gains, such that no
 * place p has more than room[p] items (a transportation problem).  room[p] becomes the number of
 * items that place p could still take.  The method: shortest augmenting paths with prices (Jonker
 * and Volgenant, 1987; for places that take several items: Ahuja, Magnanti and Orlin, 1993).  The
 * time is at most O(items * gains * log gains), usually far less. */
int plb_assign(const plb_gains_t *in, int32_t *room, int32_t *place, plb_err_t *err);
