/* Room place: the table of strategies, one call of one strategy, Python callables as strategies.
 */
#include "views.h"

/* ---- a Python callable as an entry of the table -------------------------------------------- */

/* Copy a C array into a new NumPy array; NULL data gives None. */
static PyObject *copy_of(const void *data, npy_intp n, int type)
{
    if (data == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *a = PyArray_SimpleNew(1, &n, type);
    if (a != NULL) {
        memcpy(PyArray_DATA((PyArrayObject *)a), data,
               (size_t)PyArray_NBYTES((PyArrayObject *)a));
    }
    return a;
}

static PyObject *python_snapshot(const plb_snapshot_t *s)
{
    const npy_intp n = (npy_intp)s->n_objects, m = (npy_intp)s->n_edges, p = s->n_ranks;
    PyObject *module = PyImport_ImportModule("pylb.snapshot");
    PyObject *make = module ? PyObject_GetAttrString(module, "from_core") : NULL;
    PyObject *out = NULL;
    if (make != NULL) {
        out = PyObject_CallFunction(
            make, "iiNNNNNNNNNNNNNNN", (int)s->n_ranks, (int)s->n_components,
            copy_of(s->load, n * s->n_components, NPY_FLOAT64), copy_of(s->rank, n, NPY_INT32),
            copy_of(s->key, n, NPY_INT64), copy_of(s->bytes, n, NPY_INT64),
            copy_of(s->memory, n, NPY_INT64), copy_of(s->migratable, n, NPY_BOOL),
            copy_of(s->coords, n * 3, NPY_FLOAT64), copy_of(s->edge_src, m, NPY_INT32),
            copy_of(s->edge_dst, m, NPY_INT32), copy_of(s->edge_bytes, m, NPY_FLOAT64),
            copy_of(s->edge_messages, m, NPY_FLOAT64), copy_of(s->speed, p, NPY_FLOAT64),
            copy_of(s->background, p, NPY_FLOAT64), copy_of(s->memory_limit, p, NPY_INT64),
            copy_of(s->node, p, NPY_INT32));
    }
    Py_XDECREF(make);
    Py_XDECREF(module);
    return out;
}

/* Ask pylb.strategies for the checked answer, so that wrong shapes and raised errors read well. */
static int ask(PyObject *callable, const plb_snapshot_t *in, int32_t *out)
{
    PyObject *snapshot = python_snapshot(in);
    PyObject *module = snapshot ? PyImport_ImportModule("pylb.strategies") : NULL;
    PyObject *answer =
        module ? PyObject_CallMethod(module, "answer_of", "OO", callable, snapshot) : NULL;
    int ret = -1;
    if (answer != NULL && PyArray_Check(answer)) {
        memcpy(out, PyArray_DATA((PyArrayObject *)answer), (size_t)in->n_objects * sizeof *out);
        ret = 0;
    }
    Py_XDECREF(answer);
    Py_XDECREF(module);
    Py_XDECREF(snapshot);
    return ret;
}

static int run_callable(const plb_strategy_t *self, const plb_snapshot_t *in,
                        const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    (void)opts;
    PyGILState_STATE state = PyGILState_Ensure();
    const int failed = ask(self->user, in, out);
    PyGILState_Release(state);
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "the strategy's own error is pending") : PLB_OK;
}

int plb_py_strategy(PyObject *object, plb_strategy_t *out)
{
    if (!PyUnicode_Check(object)) {
        *out = (plb_strategy_t){
            .name = "python", .looks_at = ~0u, .run = run_callable, .user = object};
        return 0;
    }
    const char *name = PyUnicode_AsUTF8(object);
    const plb_strategy_t *found = name ? plb_strategy_find(name) : NULL;
    if (found == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "strategy %R is not in the table", object);
        }
        return -1;
    }
    *out = *found;
    return 0;
}

/* ---- the table and one call ----------------------------------------------------------------- */

static PyObject *param_row(const plb_param_t *p)
{
    return Py_BuildValue("sddds" "s", p->name, p->fallback, p->least, p->most, p->unit, p->help);
}

PyObject *plb_py_params(const plb_param_t *params, int n)
{
    PyObject *out = PyTuple_New(n);
    for (int i = 0; out != NULL && i < n; i++) {
        PyObject *row = param_row(&params[i]);
        if (row == NULL) {
            Py_CLEAR(out);
        } else {
            PyTuple_SET_ITEM(out, i, row);
        }
    }
    return out;
}

static PyObject *strategy_row(const plb_strategy_t *s)
{
    PyObject *params = plb_py_params(s->params, s->n_params);
    const char *family = s->family == PLB_COMPREHENSIVE ? "comprehensive" : "refinement";
    return params ? Py_BuildValue("ssIssN", s->name, family, s->looks_at, s->help, s->source,
                                  params)
                  : NULL;
}

PyDoc_STRVAR(table_doc, "strategies()\n--\n\n"
                        "(name, family, looks_at, help, source, params) of every strategy.");
static PyObject *table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *out = PyList_New(0);
    for (const plb_strategy_t *const *s = plb_strategies; out != NULL && *s != NULL; s++) {
        PyObject *row = strategy_row(*s);
        if (row == NULL || PyList_Append(out, row) != 0) {
            Py_CLEAR(out);
        }
        Py_XDECREF(row);
    }
    return out;
}

PyDoc_STRVAR(place_doc,
             "place(snapshot, strategy, params, seed)\n--\n\n"
             "Run one strategy (name or callable; params in the order of its table).  Returns\n"
             "(rank, seconds); the GIL is released while a strategy of the table runs.");
static PyObject *place(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *which, *params, *result = NULL;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "OOOK", &object, &which, &params, &seed)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_snapshot_t snapshot;
    plb_strategy_t strategy;
    plb_err_t err = {0, ""};
    PyArrayObject *values = NULL;
    PyObject *rank = NULL;
    if (plb_py_strategy(which, &strategy) != 0 ||
        plb_py_snapshot(&held, object, &snapshot) != 0 ||
        (values = plb_py_hold(&held, params, NPY_FLOAT64, 1)) == NULL) {
        goto out;
    }
    if (strategy.run != run_callable && PyArray_SIZE(values) != strategy.n_params) {
        PyErr_Format(PyExc_ValueError, "%s takes %d parameters: %zd given", strategy.name,
                     strategy.n_params, PyArray_SIZE(values));
        goto out;
    }
    npy_intp n = (npy_intp)snapshot.n_objects;
    rank = PyArray_SimpleNew(1, &n, NPY_INT32);
    if (rank == NULL) {
        goto out;
    }
    PyThreadState *state = PyEval_SaveThread();
    const plb_opts_t opts = {PyArray_DATA(values), seed, plb_py_tick, &state};
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    int ret = strategy.run(&strategy, &snapshot, &opts, PyArray_DATA((PyArrayObject *)rank), &err);
    const double seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    PyEval_RestoreThread(state);
    if (ret == PLB_OK) {
        ret = plb_snapshot_check_placement(&snapshot, PyArray_DATA((PyArrayObject *)rank), &err);
    }
    if (ret == PLB_OK) {
        result = Py_BuildValue("Od", rank, seconds);
    } else {
        plb_py_raise(ret, &err);
    }
out:
    Py_XDECREF(rank);
    plb_py_release(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"strategies", table, METH_NOARGS, table_doc},
    {"place", place, METH_VARARGS, place_doc},
    {0},
};

int plb_py_add_place(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
