/* Mt-KaHyPar, a Python package, as an entry in the table of libraries.  It gets a question
 * (plb_question_t) as NumPy arrays, through pylb.partitioning.packages. */
#include "bind/library.h"
#include "bind/rooms.h"

/* View `data` (NULL: None) as an array, which the package may read only during the call. */
static PyObject *shown(const void *data, npy_intp n, int type)
{
    return data == NULL ? Py_NewRef(Py_None)
                        : PyArray_SimpleNewFromData(1, &n, type, (void *)(uintptr_t)data);
}

static PyObject *answer_of(PyObject *module, const plb_question_t *q)
{
    const bool nets = q->net_start != NULL;
    const int32_t *start = nets ? q->net_start : q->start;
    const int32_t n_rows = nets ? q->n_nets : q->n_vertices;
    return PyObject_CallMethod(
        module, "answer_of", "iidiONNNNNN", q->n_vertices, q->n_parts, q->imbalance, q->seed,
        nets ? Py_True : Py_False, shown(q->weight, q->n_vertices, NPY_INT32),
        shown(q->share, q->n_parts, NPY_FLOAT64), shown(q->fixed, q->n_vertices, NPY_INT32),
        shown(start, n_rows + 1, NPY_INT32),
        shown(nets ? q->pin : q->to, start[n_rows], NPY_INT32),
        shown(nets ? q->net_weight : q->edge_weight, nets ? q->n_nets : start[n_rows], NPY_INT32));
}

static int run(const plb_question_t *q, int32_t *part, plb_err_t *err)
{
    PLB_FAIL_IF(q->n_options > 0, err, PLB_ERR_VALUE, "mtkahypar has no parameter %s",
                q->option[0]);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("pylb.partitioning.packages");
    PyObject *answer = module != NULL ? answer_of(module, q) : NULL;
    if (answer != NULL) {
        memcpy(part, PyArray_DATA((PyArrayObject *)answer), (size_t)q->n_vertices * sizeof *part);
    }
    const int ret =
        answer != NULL ? PLB_OK : PLB_FAIL(err, PLB_ERR_CALLBACK, "mtkahypar has raised an error");
    Py_XDECREF(answer);
    Py_XDECREF(module);
    PyGILState_Release(state);
    return ret;
}

static const plb_partitioner_t mtkahypar = {
    .name = "mtkahypar",
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED,
    .run = run,
};

static int add_mtkahypar(PyObject *module)
{
    PyObject *one = PyCapsule_New((void *)(uintptr_t)&mtkahypar, plb_py_partitioner_name, NULL);
    const int failed = one == NULL || PyModule_AddObjectRef(module, "MTKAHYPAR", one) != 0;
    Py_XDECREF(one);
    return failed ? -1 : 0;
}

const plb_py_room_t plb_py_partition_packages = {NULL, {NULL}, add_mtkahypar};
