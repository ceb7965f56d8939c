/* The load database of an LB step: the cells of all ranks, gathered on rank 0 and placed there. */
#ifndef PLB_LIB_DATABASE_H
#define PLB_LIB_DATABASE_H

#include "comm/ranks.h"
#include "decide/decider.h"
#include "lib/pylb.h"

/* What all ranks learn of a placement. */
typedef struct plb_answer {
    int32_t *rank;    /* [n of this rank's cells] owned */
    int64_t *receive; /* [p] owned: cells that come from each rank, this one too */
    double *speed;    /* [p] owned */
    plb_placing_t placing;
    int64_t migrations, bytes;
} plb_answer_t;

/** Check the cells of a rank, but for their loads and doubled keys. */
int plb_cells_check(const pylb_cells *cells, plb_err_t *err);

/** Place the cells of all ranks by the decider's choice.  Collective; an error is one on all
 *  ranks.  Owned: plb_answer_free, also after an error.  timed: count pylb's own time. */
int plb_database_place(plb_ranks_t *ranks, plb_decider_t *decider, const pylb_cells *cells,
                       bool timed, plb_answer_t *out, plb_err_t *err);
/** A look (decide/decider.h): what better known speeds would save, in seconds per step.
 *  Collective; an error is one on all ranks. */
int plb_database_look(plb_ranks_t *ranks, plb_decider_t *decider, const pylb_cells *cells,
                      double *gain, plb_err_t *err);

/** An LB step that moves nothing, without the strategy: what an LB step may cost, with the sending
 *  of the cells by this network.  The same on all ranks.  Collective. */
int plb_database_rehearse(plb_ranks_t *ranks, const plb_network_t *network,
                          const pylb_cells *cells, double *seconds, plb_err_t *err);

void plb_answer_free(plb_answer_t *self);

#endif
