/* pylb._dgraph: distributed graphs: colouring by Zoltan, ordering by PT-Scotch. */
#define PLB_PY_MAIN
#include "bind/library.h"

#include <mpi4py/mpi4py.h>

#include "partition/libraries/dgraph.h"

/* Read the first arguments: the communicator and the graph; *m: number of edges. */
static int read_graph(plb_py_call_t *c, MPI_Comm *comm, plb_dgraph_t *graph, int64_t *m)
{
    PyObject *user;
    int64_t n = -1;
    MPI_Comm *handle = NULL;
    *m = -1;
    PLB_PY_PASS(plb_py_parse(c, &user, &graph->start, &n, &graph->to, m));
    PLB_PY_PASS((handle = PyMPIComm_Get(user)) == NULL);
    *comm = *handle;
    graph->n = (int32_t)n;
    bool good = graph->start[0] == 0 && graph->start[n] == *m;
    for (int32_t v = 0; good && v < graph->n; v++) {
        good = graph->start[v] <= graph->start[v + 1];
    }
    PLB_PY_REFUSE_IF(!good, PyExc_ValueError,
                     "start, to: expected rows of a graph, with start rising from 0 to the length "
                     "of to");
    return 0;
}

PLB_PY_FN(
    color, "comm:O start:i4+ to:i4 ... number:i4 owner:i4 distance:i color:i4!",
    "Set the colour of each vertex of this rank, different from those of all vertices within\n"
    "`distance` (1 or 2) edges.  Collective.  See csrc/partition/libraries/dgraph.h.")
{
    plb_dgraph_t graph = {0};
    MPI_Comm comm;
    int32_t distance, *color;
    int64_t m;
    PLB_PY_TRY(read_graph(c, &comm, &graph, &m));
    int64_t n = graph.n;
    PLB_PY_TRY(plb_py_parse(c, &graph.number, &n, &graph.owner, &m, &distance, &color, &n));
    PLB_PY_RUN(c, plb_zoltan_color(comm, &graph, distance, color, &c->err));
    Py_RETURN_NONE;
}

PLB_PY_FN(
    order, "comm:O start:i4+ to:i4 ... perm:i4! room:l first:i4! parent:i4!",
    "Set perm, the new number of each vertex of this rank.  On rank 0, also set the first\n"
    "column and the parent of each block of the ordered matrix, and return the number of\n"
    "blocks; these two arrays have `room` entries: one for each vertex of all ranks, and one\n"
    "more.  Collective.")
{
    plb_dgraph_t graph = {0};
    plb_blocks_t blocks = {0};
    MPI_Comm comm;
    int64_t m, room;
    int32_t *perm;
    PLB_PY_TRY(read_graph(c, &comm, &graph, &m));
    int64_t n = graph.n;
    PLB_PY_TRY(plb_py_parse(c, &perm, &n, &room, &blocks.first, &room, &blocks.parent, &room));
    PLB_PY_RUN(c, plb_ptscotch_order(comm, &graph, perm, &blocks, &c->err));
    return PyLong_FromLong(blocks.n);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, color, order);

static int dgraph_exec(PyObject *module)
{
    PLB_PY_PASS(PyArray_ImportNumPyAPI() < 0);
    PLB_PY_PASS(import_mpi4py() < 0);
    return plb_py_add_functions(module, methods);
}

PLB_PY_MODULE(dgraph, "Graph colouring by Zoltan, ordering by PT-Scotch.", dgraph_exec)
