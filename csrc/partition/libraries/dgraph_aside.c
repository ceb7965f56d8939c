/* Colours or orders a graph on one rank in a separate thread, so that a signal can end the wait.
 */
#include <string.h>

#include "base/aside.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "partition/libraries/alone.h"
#include "partition/libraries/dgraph.h"

enum {
    SMALL = 4096, /* number of vertices and edges; with fewer, a call takes some milliseconds */
    PIECES = 3,
};

typedef struct asked {
    MPI_Comm comm;
    plb_dgraph_t graph; /* owns its arrays */
    int32_t number;     /* argument of the call: distance, or total */
    int32_t *out;
    plb_blocks_t blocks;
} asked_t;

static void list(asked_t *self, plb_piece_t piece[PIECES])
{
    plb_dgraph_t *graph = &self->graph;
    const int64_t edges = graph->start[graph->n];
    piece[0] = (plb_piece_t)PLB_PIECE(graph->start, graph->n + 1);
    piece[1] = (plb_piece_t)PLB_PIECE(graph->to, edges);
    piece[2] = (plb_piece_t)PLB_PIECE(graph->owner, edges);
}

static void asked_free(void *data)
{
    asked_t *self = data;
    PLB_FREE((void *)self->graph.start, (void *)self->graph.to, (void *)self->graph.owner,
             self->out, self->blocks.first, self->blocks.parent, self);
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
    plb_piece_t piece[PIECES];
    asked_t *self = plb_malloc(1, sizeof *self);
    PLB_FAIL_IF(self == NULL, err, PLB_ERR_NOMEM, "out of memory");
    *self = *question;
    list(self, piece);
    int ret = plb_aside_own(piece, PIECES, err);
    self->out = plb_malloc((size_t)n, sizeof *out);
    if (ret == PLB_OK && self->out == NULL) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory");
    }
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
