/* Where the cells of a rank go, and their migration. */
#ifndef PLB_LIB_PLAN_H
#define PLB_LIB_PLAN_H

#include "comm/route.h"
#include "comm/transport.h"
#include "lib/pylb.h"

struct pylb_plan {
    plb_transport_t *ranks;  /* borrowed */
    int64_t n;               /* cells of this rank before */
    int32_t *rank;           /* [n] owned: the new rank of each cell */
    plb_route_t route;       /* the order in which the cells are sent */
    int64_t *send, *receive; /* [p + 1] owned: where the cells to (from) each rank begin */
    int64_t migrations;
    /* Called before and after each migration, to measure its time. */
    void (*begin)(void *arg);
    void (*end)(void *arg);
    void *arg;
};

/** Make a plan of n cells to rank[n], which is copied; receive[p]: cells that come from each rank.
 */
int plb_plan_init(pylb_plan *self, plb_transport_t *ranks, const int32_t *rank, int64_t n,
                  const int64_t *receive, int64_t migrations, plb_err_t *err);
void plb_plan_free(pylb_plan *self);

#endif
