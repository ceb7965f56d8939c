/* A plan: the new rank of each cell of a rank.  Also the migration of the cells. */
#pragma once

#include "comm/route.h"
#include "comm/transport.h"
#include "lib/pylb.h"

struct pylb_plan {
    plb_transport_t *ranks;  /* borrowed */
    int64_t n;               /* number of cells of this rank before the migration */
    int32_t *rank;           /* [n] owned: the new rank of each cell */
    plb_route_t route;       /* the order in which the cells are sent */
    int64_t *send, *receive; /* [p + 1] owned: index of the first cell to, and from, each rank */
    int64_t migrations;      /* number of cells of all ranks that move */
    /* Called before and after each migration, to measure its time. */
    void (*begin)(void *arg);
    void (*end)(void *arg);
    void *arg;
};

/** Make a plan that moves n cells to rank[n], and gets receive[p] cells from each rank. */
int plb_plan_init(pylb_plan *self, plb_transport_t *ranks, const int32_t *rank, int64_t n,
                  const int64_t *receive, int64_t migrations, plb_err_t *err);
void plb_plan_free(pylb_plan *self);
