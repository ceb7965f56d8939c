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
    int32_t number; /* argument `distance` of a colouring, or `total` of an order */
    int32_t *out;
    plb_blocks_t blocks;
} asked_t;

static void *own_arrays(plb_dgraph_t *graph)
{
    const int64_t edges = graph->start[graph->n];
    const plb_piece_t piece[] = {PLB_PIECE(graph->start, graph->n + 1),
                                 PLB_PIECE(graph->to, edges), PLB_PIECE(graph->owner, edges)};
    return plb_aside_own(piece, 3);
}

static void asked_free(void *data)
{
    asked_t *self = data;
    PLB_FREE(self->arrays, self->out, self->blocks.first, self->blocks.parent, self);
}

static int color(void *data, plb_err_t *err)
{
    asked_t *self = data;
    return plb_zoltan_color(self->comm, &self->graph, self->number, self->out, err);
}

static int order(void *data, plb_err_t *err)
{
    asked_t *self = data;
    return plb_ptscotch_order(self->comm, &self->graph, self->number, self->out, &self->blocks,
                              err);
}

static int ask(int (*run)(void *, plb_err_t *), const asked_t *question, plb_blocks_t *blocks,
               int32_t *out, atomic_int *left, plb_err_t *err)
{
    const int32_t n = question->graph.n;
    asked_t *self = plb_malloc(1, sizeof *self);
    PLB_FAIL_IF(self == NULL, err, PLB_ERR_NOMEM, "out of memory");
    *self = *question;
    self->arrays = own_arrays(&self->graph);
    self->out = plb_malloc((size_t)n, sizeof *out);
    int ret = self->arrays == NULL || self->out == NULL
                  ? PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory for a copy of the arrays")
                  : PLB_OK;
    const plb_aside_t how = {.run = run, .free = asked_free, .left = left};
    PLB_THEN(plb_aside_run(&how, self, err));
    if (ret == PLB_ERR_INTERRUPTED) {
        return ret;
    }
    if (ret == PLB_OK) {
        memcpy(out, self->out, (size_t)n * sizeof *out);
        *blocks = self->blocks;
        self->blocks = (plb_blocks_t){0};
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
    const asked_t question = {.comm = comm, .graph = *graph, .number = distance};
    plb_blocks_t none;
    return aside(comm, graph) ? ask(color, &question, &none, out, left, err)
                              : plb_zoltan_color(comm, graph, distance, out, err);
}

int plb_dgraph_order(MPI_Comm comm, const plb_dgraph_t *graph, int32_t total, int32_t *perm,
                     plb_blocks_t *blocks, atomic_int *left, plb_err_t *err)
{
    const asked_t question = {.comm = comm, .graph = *graph, .number = total};
    return aside(comm, graph) ? ask(order, &question, blocks, perm, left, err)
                              : plb_ptscotch_order(comm, graph, total, perm, blocks, err);
}
