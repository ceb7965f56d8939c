/* The agenda: the time of the next event of each of n owners, e.g. of each processor (state.h
 * lists the owners).  A tournament tree finds the earliest time; ties: the lowest owner. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

typedef struct plb_agenda {
    double *time;    /* [room] time of each owner's next event; INFINITY: it has none */
    int32_t *winner; /* [room] owner with the earliest time below each node; node 1 is the root */
    int32_t room;    /* a power of two, 2 or more */
} plb_agenda_t;

static inline int plb_agenda_init(plb_agenda_t *self, int32_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    for (self->room = 2; self->room < n; self->room *= 2) {
    }
    PLB_NEW(self->time, self->room);
    PLB_NEW(self->winner, self->room);
    for (int32_t i = 0; i < self->room; i++) {
        self->time[i] = INFINITY;
    }
    for (int32_t node = self->room - 1; node > 0; node--) {
        self->winner[node] =
            2 * node >= self->room ? 2 * node - self->room : self->winner[2 * node];
    }
out:
    return ret;
}

static inline void plb_agenda_free(plb_agenda_t *self)
{
    plb_free(self->time);
    plb_free(self->winner);
    *self = (plb_agenda_t){0};
}

static inline int32_t plb_agenda_first(const plb_agenda_t *self)
{
    return self->winner[1];
}

static inline void plb_agenda_set(plb_agenda_t *self, int32_t owner, double time)
{
    if (self->time[owner] == time) {
        return;
    }
    self->time[owner] = time;
    int32_t node = (self->room + owner) / 2;
    const int32_t pair = owner & ~1;
    int32_t left = pair, right = pair + 1;
    for (;;) {
        const int32_t best = self->time[left] <= self->time[right] ? left : right;
        if (best != owner && self->winner[node] == best) {
            return; /* nodes above this one do not change */
        }
        self->winner[node] = best;
        if (node == 1) {
            return;
        }
        node /= 2;
        left = self->winner[2 * node];
        right = self->winner[2 * node + 1];
    }
}
