/* Nested dissection by PT-Scotch 7, on one rank by Scotch. */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <ptscotch.h>

#include "partition/libraries/dgraph.h"

_Static_assert(sizeof(SCOTCH_Num) == sizeof(int32_t),
               "PT-Scotch with integers of 32 bits is expected");

static int failed(const char *what, plb_err_t *err)
{
    return PLB_FAIL(err, PLB_ERR_LIBRARY, "PT-Scotch: %s failed", what);
}

static int gather_blocks(SCOTCH_Dgraph *graph, SCOTCH_Dordering *order, plb_blocks_t *blocks,
                         plb_err_t *err)
{
    SCOTCH_Ordering whole;
    int ret = PLB_OK;
    if (SCOTCH_dgraphCorderInit(graph, &whole, NULL, NULL, &blocks->n, blocks->first,
                                blocks->parent) != 0) {
        return failed("SCOTCH_dgraphCorderInit", err);
    }
    if (SCOTCH_dgraphOrderGather(graph, order, &whole) != 0) {
        ret = failed("SCOTCH_dgraphOrderGather", err);
    }
    SCOTCH_dgraphCorderExit(graph, &whole);
    return ret;
}

static int order(SCOTCH_Dgraph *graph, SCOTCH_Strat *strategy, bool root, int32_t *perm,
                 plb_blocks_t *blocks, plb_err_t *err)
{
    SCOTCH_Dordering found;
    if (SCOTCH_dgraphOrderInit(graph, &found) != 0) {
        return failed("SCOTCH_dgraphOrderInit", err);
    }
    int ret = PLB_OK;
    if (SCOTCH_dgraphOrderCompute(graph, &found, strategy) != 0) {
        ret = failed("SCOTCH_dgraphOrderCompute", err);
    } else if (SCOTCH_dgraphOrderPerm(graph, &found, perm) != 0) {
        ret = failed("SCOTCH_dgraphOrderPerm", err);
    } else if (root) {
        ret = gather_blocks(graph, &found, blocks, err);
    } else if (SCOTCH_dgraphOrderGather(graph, &found, NULL) != 0) {
        ret = failed("SCOTCH_dgraphOrderGather", err);
    }
    SCOTCH_dgraphOrderExit(graph, &found);
    return ret;
}

int plb_ptscotch_order(MPI_Comm comm, const plb_dgraph_t *in, int32_t *perm, plb_blocks_t *blocks,
                       plb_err_t *err)
{
    SCOTCH_Dgraph graph;
    SCOTCH_Strat strategy;
    int rank, ret = PLB_OK;
    MPI_Comm_rank(comm, &rank);
    if (SCOTCH_dgraphInit(&graph, comm) != 0) {
        return failed("SCOTCH_dgraphInit", err);
    }
    SCOTCH_stratInit(&strategy);
    SCOTCH_randomReset();
    /* the library does not write to these arrays */
    SCOTCH_Num *start = (SCOTCH_Num *)in->start;
    if (SCOTCH_dgraphBuild(&graph, 0, in->n, in->n, start, start + 1, NULL, NULL, start[in->n],
                           start[in->n], (SCOTCH_Num *)in->to, NULL, NULL) != 0) {
        ret = failed("SCOTCH_dgraphBuild", err);
    } else {
        ret = order(&graph, &strategy, rank == 0, perm, blocks, err);
    }
    SCOTCH_stratExit(&strategy);
    SCOTCH_dgraphExit(&graph);
    return ret;
}
