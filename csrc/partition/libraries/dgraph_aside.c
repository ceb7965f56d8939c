/* Colours or orders a graph on one rank in another thread, so that a signal can end the wait. */
#include <string.h>

#include "base/aside.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "partition/libraries/alone.h"
#include "partition/libraries/dgraph.h"

enum { SMALL = 4096 }; /* vertices + edges; below this, a call takes some milliseconds */

typedef struct asked {
    MPI_Comm comm;
    plb_dgraph_t graph; /* a copy; its arrays are in `arrays` */
    void *arrays;
    int distance; /* of a colouring; an order: 0 */
    int32_t *out;
    plb_blocks_t blocks; /* of an order; a colouring: without arrays */
} asked_t;

static void *own_arrays(plb_dgraph_t *graph)
{
    const int64_t edges = graph->start[graph->n];
    const plb_piece_t piece[] = {PLB_PIECE(graph->start, graph->n + 1),
                                 PLB_PIECE(graph->to, edges), PLB_PIECE(graph->number, graph->n),
                                 PLB_PIECE(graph->owner, edges)};
    return plb_aside_own(piece, 4);
}

static void asked_free(void *data)
{
    asked_t *self = data;
    PLB_FREE(self->arrays, self->out, self->blocks.first, self->blocks.parent, self);
}

static int color(void *data, plb_err_t *err)
{
    asked_t *self = data;
    return plb_zoltan_color(self->comm, &self->graph, self->distance, self->out, err);
}

static int order(void *data, plb_err_t *err)
{
    asked_t *self = data;
    return plb_ptscotch_order(self->comm, &self->graph, self->out, &self->blocks, err);
}

/* blocks: of an order, with arrays for n + 1 entries each; a colouring: NULL. */
static int ask(const asked_t *question, plb_blocks_t *blocks, int32_t *out, atomic_int *left,
               plb_err_t *err)
{
    const size_t n = (size_t)question->graph.n, n_blocks = blocks == NULL ? 0 : n + 1;
    asked_t *self = plb_malloc(1, sizeof *self);
    PLB_FAIL_IF(self == NULL, err, PLB_ERR_NOMEM, "out of memory");
    *self = *question;
    self->arrays = own_arrays(&self->graph);
    self->out = plb_malloc(n, sizeof *out);
    self->blocks.first = plb_malloc(n_blocks, sizeof *out);
    self->blocks.parent = plb_malloc(n_blocks, sizeof *out);
    int ret = self->arrays == NULL || self->out == NULL || self->blocks.first == NULL ||
                      self->blocks.parent == NULL
                  ? PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory for a copy of the arrays")
                  : PLB_OK;
    const plb_aside_t how = {
        .run = blocks == NULL ? color : order, .free = asked_free, .left = left};
    PLB_THEN(plb_aside_run(&how, self, err));
    if (ret == PLB_ERR_INTERRUPTED) {
        return ret;
    }
    if (ret == PLB_OK) {
        memcpy(out, self->out, n * sizeof *out);
    }
    if (ret == PLB_OK && blocks != NULL) {
        blocks->n = self->blocks.n;
        memcpy(blocks->first, self->blocks.first, n_blocks * sizeof *out);
        memcpy(blocks->parent, self->blocks.parent, n_blocks * sizeof *out);
    }
    asked_free(self);
    return ret;
}

static bool aside(MPI_Comm comm, const plb_dgraph_t *graph)
{
    return plb_interruptible() && graph->n + graph->start[graph->n] >= SMALL &&
           plb_may_run_aside(comm);
}

int plb_dgraph_color(MPI_Comm comm, const plb_dgraph_t *graph, int distance, int32_t *out,
                     atomic_int *left, plb_err_t *err)
{
    const asked_t question = {.comm = comm, .graph = *graph, .distance = distance};
    return aside(comm, graph) ? ask(&question, NULL, out, left, err)
                              : plb_zoltan_color(comm, graph, distance, out, err);
}

int plb_dgraph_order(MPI_Comm comm, const plb_dgraph_t *graph, int32_t *perm, plb_blocks_t *blocks,
                     atomic_int *left, plb_err_t *err)
{
    const asked_t question = {.comm = comm, .graph = *graph};
    return aside(comm, graph) ? ask(&question, blocks, perm, left, err)
                              : plb_ptscotch_order(comm, graph, perm, blocks, err);
}
