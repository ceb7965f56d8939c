/* explore: the critical path of recorded operations, and what a moved or zeroed procedure does. */
#include "whatif/path.h"

#include "bind/views.h"

typedef struct recording {
    plb_py_held_t held;
    plb_streams_t streams;
    const plb_op_t **op;
    int64_t *n;
    plb_pairing_t pairing;
} recording_t;

static void forget(recording_t *self)
{
    plb_pairing_free(&self->pairing);
    plb_free(self->op);
    plb_free(self->n);
    plb_py_release(&self->held);
}

/* The operations of each rank: a list of contiguous arrays of records, borrowed from the list. */
static int view_ops(PyObject *list, recording_t *out)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "ops: expected a list of arrays, one for each rank");
        return -1;
    }
    const Py_ssize_t p = PyList_GET_SIZE(list);
    out->op = plb_malloc((size_t)p, sizeof *out->op);
    out->n = plb_malloc((size_t)p, sizeof *out->n);
    if (out->op == NULL || out->n == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t r = 0; r < p; r++) {
        PyArrayObject *a = plb_py_records(PyList_GET_ITEM(list, r), sizeof(plb_op_t), false);
        if (a == NULL) {
            return -1;
        }
        out->op[r] = PyArray_DATA(a);
        out->n[r] = PyArray_SIZE(a);
    }
    out->streams.n_ranks = (int32_t)p;
    out->streams.op = out->op;
    out->streams.n = out->n;
    return 0;
}

/* View what belongs to a recording and pair its messages; 0, or -1 with an exception. */
static int view(PyObject *ops, PyObject *start, PyObject *member, recording_t *out)
{
    plb_err_t err = {0, ""};
    if (view_ops(ops, out) != 0 ||
        plb_py_comms(&out->held, start, member, &out->streams.comms) != 0) {
        return -1;
    }
    const int ret = plb_pairing_make(&out->streams, &out->pairing, &err);
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
    }
    return ret == PLB_OK ? 0 : -1;
}

PyDoc_STRVAR(path_lengths_doc,
             "path_lengths(ops, comm_start, comm_member, asks, /)\n--\n\n"
             "For each (change, procedure, from, to, kept, alpha, beta) in `asks`: ns of the\n"
             "longest path to each rank's end, (asks, p) int64, and how many ranks are stuck.");
static PyObject *path_lengths(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *ops, *start, *member, *asks, *out = NULL, *stuck = NULL;
    if (!PyArg_ParseTuple(args, "OOOO!", &ops, &start, &member, &PyList_Type, &asks)) {
        return NULL;
    }
    recording_t run = {.held = {.n = 0}};
    plb_err_t err = {0, ""};
    if (view(ops, start, member, &run) == 0) {
        const npy_intp shape[2] = {PyList_GET_SIZE(asks), run.streams.n_ranks};
        out = PyArray_ZEROS(2, shape, NPY_INT64, 0);
        stuck = PyArray_ZEROS(1, shape, NPY_INT32, 0);
    }
    for (Py_ssize_t i = 0; out != NULL && stuck != NULL && i < PyList_GET_SIZE(asks); i++) {
        plb_path_ask_t ask;
        int change, kept;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(asks, i), "iiiipdd", &change, &ask.procedure,
                              &ask.from, &ask.to, &kept, &ask.alpha, &ask.beta)) {
            Py_CLEAR(out);
            break;
        }
        ask.change = (plb_path_change_t)change;
        ask.kept = kept;
        int64_t *lengths = (int64_t *)PyArray_DATA((PyArrayObject *)out) + i * run.streams.n_ranks;
        int32_t *wait = (int32_t *)PyArray_DATA((PyArrayObject *)stuck) + i;
        int ret;
        Py_BEGIN_ALLOW_THREADS ret =
            plb_path_lengths(&run.streams, &run.pairing, &ask, lengths, NULL, wait, &err);
        Py_END_ALLOW_THREADS if (ret != PLB_OK)
        {
            plb_py_raise(ret, &err);
            Py_CLEAR(out);
        }
    }
    forget(&run);
    if (out == NULL || stuck == NULL) {
        Py_XDECREF(out);
        Py_XDECREF(stuck);
        return NULL;
    }
    return Py_BuildValue("NN", out, stuck);
}

static plb_path_hop_t **hops_of(const plb_streams_t *streams)
{
    int64_t all = 0;
    for (int32_t r = 0; r < streams->n_ranks; r++) {
        all += streams->n[r];
    }
    plb_path_hop_t **hop = plb_malloc((size_t)streams->n_ranks + 1, sizeof *hop);
    if (hop != NULL && (hop[0] = plb_malloc((size_t)all, sizeof **hop)) == NULL) {
        plb_free(hop);
        return NULL;
    }
    for (int32_t r = 0; hop != NULL && r < streams->n_ranks; r++) {
        hop[r + 1] = hop[r] + streams->n[r];
    }
    return hop;
}

/* The longest path: its stretches, and its shares in by_rank and by_procedure. */
static int walk(const recording_t *run, const plb_path_ask_t *ask, int32_t n_procedures,
                int64_t *longest, plb_stretch_t **stretch, int64_t *n, int64_t *by_rank,
                int64_t *by_procedure, int32_t *stuck, plb_err_t *err)
{
    plb_path_hop_t **hop = hops_of(&run->streams);
    if (hop == NULL) {
        return PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory for the critical path");
    }
    int ret = plb_path_lengths(&run->streams, &run->pairing, ask, longest, hop, stuck, err);
    int32_t last = 0;
    for (int32_t r = 1; r < run->streams.n_ranks; r++) {
        last = longest[r] > longest[last] ? r : last;
    }
    if (ret == PLB_OK && *stuck == 0 && run->streams.n_ranks > 0) {
        ret = plb_path_walk(&run->streams, hop, last, stretch, n, err);
    }
    if (ret == PLB_OK) {
        ret =
            plb_path_shares(&run->streams, *stretch, *n, n_procedures, by_rank, by_procedure, err);
    }
    plb_free(hop[0]);
    plb_free(hop);
    return ret;
}

PyDoc_STRVAR(
    critical_path_doc,
    "critical_path(ops, comm_start, comm_member, alpha, beta, n_procedures, /)\n--\n\n"
    "ns of the path to each rank's end; stretches (rank, first, last, ns), (k, 4) int64;\n"
    "ns by rank and by procedure; how many ranks are stuck (then there are none).");
static PyObject *critical_path(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *ops, *start, *member;
    plb_path_ask_t ask = {.change = PLB_PATH_NOTHING, .procedure = -1};
    int n_procedures;
    if (!PyArg_ParseTuple(args, "OOOddi", &ops, &start, &member, &ask.alpha, &ask.beta,
                          &n_procedures)) {
        return NULL;
    }
    recording_t run = {.held = {.n = 0}};
    plb_err_t err = {0, ""};
    plb_stretch_t *stretch = NULL;
    int64_t n = 0;
    int32_t stuck = 0;
    PyObject *longest = NULL, *rank = NULL, *procedure = NULL, *rows = NULL;
    if (view(ops, start, member, &run) == 0) {
        const npy_intp p = run.streams.n_ranks, q = n_procedures + 1;
        longest = PyArray_ZEROS(1, &p, NPY_INT64, 0);
        rank = PyArray_ZEROS(1, &p, NPY_INT64, 0);
        procedure = PyArray_ZEROS(1, &q, NPY_INT64, 0);
    }
    int ret = longest && rank && procedure ? PLB_OK : PLB_ERR_CALLBACK;
    if (ret == PLB_OK) {
        int64_t *to = PyArray_DATA((PyArrayObject *)longest);
        int64_t *by_rank = PyArray_DATA((PyArrayObject *)rank);
        int64_t *by_procedure = PyArray_DATA((PyArrayObject *)procedure);
        Py_BEGIN_ALLOW_THREADS ret =
            walk(&run, &ask, n_procedures, to, &stretch, &n, by_rank, by_procedure, &stuck, &err);
        Py_END_ALLOW_THREADS if (ret != PLB_OK)
        {
            plb_py_raise(ret, &err);
        }
    }
    if (ret == PLB_OK) {
        const npy_intp shape[2] = {n, 4};
        rows = PyArray_SimpleNew(2, shape, NPY_INT64);
    }
    for (int64_t i = 0; rows != NULL && i < n; i++) {
        int64_t *row = (int64_t *)PyArray_DATA((PyArrayObject *)rows) + 4 * i;
        row[0] = stretch[i].rank;
        row[1] = stretch[i].first;
        row[2] = stretch[i].last;
        row[3] = stretch[i].ns;
    }
    plb_free(stretch);
    forget(&run);
    if (rows == NULL) {
        Py_XDECREF(longest);
        Py_XDECREF(rank);
        Py_XDECREF(procedure);
        return NULL;
    }
    return Py_BuildValue("NNNNi", longest, rows, rank, procedure, stuck);
}

static PyMethodDef methods[] = {
    {"path_lengths", path_lengths, METH_VARARGS, path_lengths_doc},
    {"critical_path", critical_path, METH_VARARGS, critical_path_doc},
    {0},
};

int plb_py_add_path(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
