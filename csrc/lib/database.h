/* The load database of an LB step: the cells of all ranks, gathered on rank 0 and placed there. */
#pragma once

#include "comm/transport.h"
#include "decide/decider.h"
#include "lib/pylb.h"

/* The part of a placement that a rank gets. */
typedef struct plb_placed {
    int32_t *rank;    /* [n] owned: new rank of each cell of this rank */
    int64_t *receive; /* [p] owned: number of cells that come from each rank, including this one */
    double *speed;    /* [p] owned: speeds of the ranks, see plb_decider_place */
    plb_placing_t placing;
    int64_t migrations, bytes; /* number of cells of all ranks that move, and their bytes */
} plb_placed_t;

/** Check the counts of a rank's cells and edges, and that no required array is missing. */
int plb_cells_check(const pylb_cells *cells, plb_err_t *err);

/** Place the cells of all ranks by the strategy that the decider has chosen.  Collective; an error
 * is raised on all ranks.  Free *out by plb_placed_free, also after an error.  timed: whether to
 * set the seconds in out->placing that pylb itself needed; otherwise they are 0. */
int plb_database_place(plb_transport_t *ranks, plb_decider_t *decider, const pylb_cells *cells,
                       bool timed, plb_placed_t *out, plb_err_t *err);

/** Estimate the seconds per step that a new placement would save (plb_decider_preview).
 * Collective; an error is raised on all ranks. */
int plb_database_preview(plb_transport_t *ranks, plb_decider_t *decider, const pylb_cells *cells,
                         double *gain, plb_err_t *err);

/** Estimate the seconds of an LB step: the time to send all cells of the rank with the most bytes
 * and, if `timed`, the measured time of an LB step that runs no strategy and moves nothing.
 * Collective. */
int plb_database_rehearse(plb_transport_t *ranks, const plb_network_t *network,
                          const pylb_cells *cells, bool timed, double *seconds, plb_err_t *err);

void plb_placed_free(plb_placed_t *self);
