/* pylb._dgraph: colours and orders of graphs that are spread over ranks. */
#define PLB_PY_MAIN
#include "bind/views.h"

#include "bind/library.h"

#include <mpi4py/mpi4py.h>

#include "partition/libraries/dgraph.h"

/* comm, first, start, to, owner and one number more; 0, or -1 with an exception. */
static int read_graph(PyObject *args, plb_py_held_t *held, MPI_Comm *comm, plb_dgraph_t *graph,
                      int *number)
{
    PyObject *user, *start, *to, *owner;
    if (!PyArg_ParseTuple(args, "OiOOOi", &user, &graph->first, &start, &to, &owner, number)) {
        return -1;
    }
    MPI_Comm *handle = PyMPIComm_Get(user);
    PyArrayObject *a = handle ? plb_py_hold(held, start, NPY_INT32, 1) : NULL;
    PyArrayObject *b = a ? plb_py_hold(held, to, NPY_INT32, 1) : NULL;
    PyArrayObject *c = b ? plb_py_hold(held, owner, NPY_INT32, 1) : NULL;
    if (c == NULL) {
        return -1;
    }
    *comm = *handle;
    graph->n = (int32_t)(PyArray_SIZE(a) - 1);
    graph->start = PyArray_DATA(a);
    graph->to = PyArray_DATA(b);
    graph->owner = PyArray_DATA(c);
    int ok = graph->n >= 0 && graph->start[0] == 0 && PyArray_SIZE(c) == PyArray_SIZE(b) &&
             graph->start[graph->n] == PyArray_SIZE(b);
    for (int32_t v = 0; ok && v < graph->n; v++) {
        ok = graph->start[v] <= graph->start[v + 1];
    }
    if (!ok) {
        PyErr_SetString(PyExc_ValueError, "start, to, owner: expected rows of a graph");
    }
    return ok ? 0 : -1;
}

PyDoc_STRVAR(color_doc, "color(comm, first, start, to, owner, distance, /)\n--\n\n"
                        "Colours of this rank's vertices.  Collective.");
static PyObject *color(PyObject *module, PyObject *args)
{
    (void)module;
    plb_py_held_t held = {0};
    plb_dgraph_t graph;
    plb_err_t err = {0, ""};
    MPI_Comm comm;
    int distance;
    PyObject *out = NULL;
    if (read_graph(args, &held, &comm, &graph, &distance) == 0) {
        npy_intp n = graph.n;
        out = PyArray_SimpleNew(1, &n, NPY_INT32);
    }
    if (out != NULL) {
        int ret;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_zoltan_color(comm, &graph, distance, PyArray_DATA((PyArrayObject *)out), &err);
        Py_END_ALLOW_THREADS;
        if (ret != PLB_OK) {
            Py_CLEAR(out);
            plb_py_raise(ret, &err);
        }
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(order_doc, "order(comm, first, start, to, owner, total, /)\n--\n\n"
                        "(perm, first, parent): places of this rank's vertices; on rank 0 also\n"
                        "the first column of each block, and its parent.  Collective.");
static PyObject *order(PyObject *module, PyObject *args)
{
    (void)module;
    plb_py_held_t held = {0};
    plb_dgraph_t graph;
    plb_blocks_t blocks = {0};
    plb_err_t err = {0, ""};
    MPI_Comm comm;
    int total;
    PyObject *out = NULL, *perm = NULL;
    if (read_graph(args, &held, &comm, &graph, &total) == 0) {
        npy_intp n = graph.n;
        perm = PyArray_SimpleNew(1, &n, NPY_INT32);
    }
    if (perm != NULL) {
        int ret;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_ptscotch_order(comm, &graph, total, PyArray_DATA((PyArrayObject *)perm), &blocks,
                                 &err);
        Py_END_ALLOW_THREADS;
        if (ret != PLB_OK) {
            plb_free(blocks.first);
            plb_free(blocks.parent);
            plb_py_raise(ret, &err);
        } else if (blocks.first == NULL) {
            out = Py_BuildValue("OOO", perm, Py_None, Py_None);
        } else {
            PyObject *first = plb_py_take(blocks.first, blocks.n + 1, NPY_INT32);
            PyObject *parent = plb_py_take(blocks.parent, blocks.n, NPY_INT32);
            out = first && parent ? PyTuple_Pack(3, perm, first, parent) : NULL;
            Py_XDECREF(first);
            Py_XDECREF(parent);
        }
    }
    Py_XDECREF(perm);
    plb_py_release(&held);
    return out;
}

static PyMethodDef methods[] = {
    {"color", color, METH_VARARGS, color_doc},
    {"order", order, METH_VARARGS, order_doc},
    {0},
};

static int dgraph_exec(PyObject *module)
{
    if (PyArray_ImportNumPyAPI() < 0 || import_mpi4py() != 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, methods);
}

PLB_PY_LIBRARY_MODULE(dgraph, "Colours by Zoltan and orders by PT-Scotch.", dgraph_exec)
