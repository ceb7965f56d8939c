/* pylb._dgraph: distributed graphs: colouring by Zoltan, ordering by PT-Scotch. */
#define PLB_PY_MAIN
#include "bind/library.h"

#include <mpi4py/mpi4py.h>

#include "partition/libraries/dgraph.h"

static atomic_int *left; /* plb_zoltan_left of pylb._zoltan: interrupted calls that still run */

/* Read the arguments of color() and order(); *number is `distance` or `total`. */
static int read_graph(plb_py_call_t *c, MPI_Comm *comm, plb_dgraph_t *graph, int32_t *number)
{
    PyObject *user;
    int64_t n = -1, m = -1;
    MPI_Comm *handle = NULL;
    PLB_PY_PASS(plb_py_parse(c, &user, &graph->first, &graph->start, &n, &graph->to, &m,
                             &graph->owner, &m, number));
    PLB_PY_PASS((handle = PyMPIComm_Get(user)) == NULL);
    *comm = *handle;
    graph->n = (int32_t)n;
    bool good = graph->start[0] == 0 && graph->start[n] == m;
    for (int32_t v = 0; good && v < graph->n; v++) {
        good = graph->start[v] <= graph->start[v + 1];
    }
    PLB_PY_REFUSE_IF(!good, PyExc_ValueError,
                     "start, to, owner: expected rows of a graph, with start rising from 0 to the "
                     "length of to");
    return 0;
}

PLB_PY_FN(color, "comm:O first:i start:i4+ to:i4 owner:i4 distance:i",
          "Return the colour of each vertex of this rank, different from those of all vertices\n"
          "within `distance` (1 or 2) edges.  Collective.  See csrc/partition/libraries/dgraph.h.")
{
    plb_dgraph_t graph;
    MPI_Comm comm;
    int32_t distance;
    PLB_PY_TRY(read_graph(c, &comm, &graph, &distance));
    int32_t *color = plb_py_new(c, NPY_INT32, graph.n);
    PLB_PY_RUN(c, plb_dgraph_color(comm, &graph, distance, color, left, &c->err));
    return plb_py_out(c, color);
}

PLB_PY_FN(order, "comm:O first:i start:i4+ to:i4 owner:i4 total:i",
          "Return (perm, columns, parent).  perm: new number of each vertex of this rank;\n"
          "columns, parent: first column and parent of each block of the ordered matrix, None\n"
          "except on rank 0.  total: number of vertices on all ranks.  Collective.")
{
    plb_dgraph_t graph;
    plb_blocks_t blocks = {0};
    MPI_Comm comm;
    int32_t total, *perm;
    PLB_PY_TRY(read_graph(c, &comm, &graph, &total));
    PLB_PY_GET(perm = plb_py_new(c, NPY_INT32, graph.n));
    if (PLB_PY_UNLOCKED(c, plb_dgraph_order(comm, &graph, total, perm, &blocks, left, &c->err))) {
        plb_free(blocks.first);
        plb_free(blocks.parent);
        return plb_py_fail(c);
    }
    return Py_BuildValue("NNN", plb_py_out(c, perm),
                         plb_py_take(blocks.first, blocks.n + 1, NPY_INT32),
                         plb_py_take(blocks.parent, blocks.n, NPY_INT32));
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, color, order);

static int dgraph_exec(PyObject *module)
{
    PyObject *zoltan = PyImport_ImportModule("pylb._zoltan");
    left = zoltan == NULL ? NULL : PyCapsule_Import(PLB_PY_LEFT, 0);
    Py_XDECREF(zoltan);
    return left == NULL || PyArray_ImportNumPyAPI() < 0 || import_mpi4py() != 0
               ? -1
               : plb_py_add_functions(module, methods);
}

PLB_PY_MODULE(dgraph, "Graph colouring by Zoltan, ordering by PT-Scotch.", dgraph_exec)
