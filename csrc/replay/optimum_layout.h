/* Prepares a recorded run for the search of optimum_recorded.c: objects get small numbers
 * (slots), and the loads of several phases are adjacent in memory. */
#pragma once

#include <stdbool.h>

#include "replay/trace.h"

enum {
    LANES = 16, /* number of phases in a block: phases whose loads are adjacent in memory */
    STAYS = -2, /* a special rank of a change: the object returns to its last rank */
};

/* A change between two sections: an object arrives on a rank, or leaves (rank is -1); or an object
 * that cannot migrate has a new recorded rank. */
typedef struct change {
    int32_t slot, rank;
    bool fresh; /* whether the object arrives without a load estimate */
} change_t;

/* Successive phases with the same tasks, in which objects that cannot migrate do not move. */
typedef struct section {
    int64_t first, end; /* first phase; last phase plus 1 */
    int64_t n;          /* number of tasks in each phase */
    bool some_absent;   /* whether an object that is absent now will come back to its last rank */
    int64_t slots;      /* index in `slot` where the section's entries begin */
    int64_t changes, end_of_changes; /* in `change`: first entry of the section, and last plus 1 */
    int64_t lanes; /* index in `lanes` where the section's blocks begin; -1: it has no blocks */
} section_t;
/* A slot belongs to one object as long as the object's rank matters; then it is reused. */
typedef struct layout {
    const plb_trace_t *trace;
    section_t *section;
    int64_t n_sections, n_slots, most; /* most: largest number of tasks in a phase */
    int32_t *section_of;               /* [n_phases] section of each phase */
    int32_t *slot;                     /* slot of each task, section after section */
    change_t *change;
    double *lanes; /* [block][task][LANES] work of each task in the LANES phases of a block */
    double *pace;  /* [n_ranks] work per second of each rank; NULL: all are 1 */
    double *least; /* [n_phases] seconds, a lower bound for any placement */
} layout_t;

int plb_layout_init(layout_t *self, const plb_trace_t *trace, plb_err_t *err);
void plb_layout_free(layout_t *self);

/** Update rank[n_slots] for the objects that arrive or leave at the beginning of a section. */
void plb_layout_enter(const layout_t *self, int64_t section, int32_t *rank);

/** Return the work of a task: its load times the speed at which the load was measured. */
double plb_task_work(const plb_trace_t *t, int64_t task);

/** Return the seconds of a phase whose slowest rank takes `most` (plb_phases_time). */
double plb_phase_seconds(const plb_trace_t *t, int64_t i, double most);
