/* pylb._dgraph: distributed graphs: colouring by Zoltan, ordering by PT-Scotch. */
#define PLB_PY_MAIN

#include "bind/mpi_comm.h"

#include "partition/libraries/dgraph.h"

/* Read the first arguments: the communicator and the graph; *m: number of edges. */
static int read_graph(plb_py_call_t *c, MPI_Comm *comm, plb_dgraph_t *graph, int64_t *m)
{
    PyObject *user;
    int64_t n = -1;
    *m = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&user), PLB_MANY(&graph->start, &n), PLB_MANY(&graph->to, m)));
    PLB_PASS(plb_py_mpi_comm(user, comm));
    graph->n = (int32_t)n;
    bool good = graph->start[0] == 0 && graph->start[n] == *m;
    for (int32_t v = 0; good && v < graph->n; v++) {
        good = graph->start[v] <= graph->start[v + 1];
    }
    return plb_py_refuse(
        !good, PyExc_ValueError,
        "start, to: expected rows of a graph, with start rising from 0 to the length "
        "of to");
}

PLB_PY_DEF(fn, color, "comm start:+ to ... number owner distance color",
           "Set the colour of each vertex of this rank, different from those of all vertices "
           "within `distance` (1 or 2) edges.")
{
    plb_dgraph_t graph = {0};
    MPI_Comm comm;
    int32_t distance, *color;
    int64_t m;
    PLB_PASS(read_graph(c, &comm, &graph, &m));
    int64_t n = graph.n;
    PLB_PASS(PLB_READ(c, PLB_MANY(&graph.number, &n), PLB_MANY(&graph.owner, &m),
                      PLB_ONE(&distance), PLB_MANY(&color, &n)));
    return PLB_PY_UNLOCKED(c, plb_zoltan_color(comm, &graph, distance, color, &c->err));
}

PLB_PY_DEF(fn, order, "comm start:+ to ... perm room first parent",
           "Set perm, the new number of each vertex of this rank.")
{
    plb_dgraph_t graph = {0};
    plb_blocks_t blocks = {0};
    MPI_Comm comm;
    int64_t m, room;
    int32_t *perm;
    PLB_PASS(read_graph(c, &comm, &graph, &m));
    int64_t n = graph.n;
    PLB_PASS(PLB_READ(c, PLB_MANY(&perm, &n), PLB_ONE(&room), PLB_MANY(&blocks.first, &room),
                      PLB_MANY(&blocks.parent, &room)));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_ptscotch_order(comm, &graph, perm, &blocks, &c->err)));
    return plb_py_answer(c, PyLong_FromLong(blocks.n));
}

static const plb_py_def_t *const methods[] = {&fn_color, &fn_order, NULL};

static int dgraph_exec(PyObject *module)
{
    PLB_PASS(PyArray_ImportNumPyAPI() < 0);
    return plb_py_add_functions(module, methods);
}

PLB_PY_MODULE(_dgraph, "Graph colouring by Zoltan, ordering by PT-Scotch.", dgraph_exec)
