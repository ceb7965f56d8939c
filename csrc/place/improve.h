/* The local search of all strategies whose objective is more than the load: it improves a
 * placement by steps between two ranks, until its value is low enough. */
#pragma once

#include "place/state.h"

/* The families of steps: an object moves; two objects are exchanged; two ranks divide some of
 * their objects in the best way. */
enum { PLB_MOVES = 1, PLB_SWAPS = 2, PLB_SETS = 4, PLB_ALL_STEPS = 7 };

typedef struct plb_aim {
    double value;      /* the search ends at this value */
    unsigned families; /* of steps */
    int kicks;         /* the largest number of random changes after which the search goes on, if
                          objects are few */
    uint64_t seed;     /* of the random changes */
} plb_aim_t;

/** Improve the placement.  While some ranks exceed their memory limits, steps reduce this excess;
 * then they keep the limits and lower the value (state.h).  Of steps that gain the same, the one
 * that keeps more communication inside the ranks is made, then the one that was found first.  The
 * search also ends if no step helps, if the value hardly falls, or after a fixed amount of work (a
 * few tenths of a second). */
int plb_improve(plb_state_t *state, const plb_aim_t *aim, plb_err_t *err);
