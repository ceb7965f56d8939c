/* Room place: the table of strategies, one call of one strategy, Python callables as strategies.
 */
#include "bind/views.h"

/* ---- a Python callable as an entry of the table -------------------------------------------- */

/* Copy a C array into a new NumPy array; NULL data gives None. */
static PyObject *copy_of(const void *data, npy_intp n, int type)
{
    if (data == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *a = PyArray_SimpleNew(1, &n, type);
    if (a != NULL) {
        memcpy(PyArray_DATA((PyArrayObject *)a), data, (size_t)PyArray_NBYTES((PyArrayObject *)a));
    }
    return a;
}

/* Copies of the snapshot's arrays, by name. */
static PyObject *copies(const plb_snapshot_t *s)
{
    const npy_intp n = (npy_intp)s->n_objects, d = s->n_components, p = s->n_ranks;
    const npy_intp m = (npy_intp)s->n_edges, c = (npy_intp)s->n_multicasts;
    const npy_intp pins = (npy_intp)s->n_pins, b = s->n_blocks;
    PyObject *out = PyDict_New();
#define COPY(name, type, count)                                                                   \
    if (out != NULL) {                                                                            \
        PyObject *a = copy_of(s->name, count, type);                                              \
        if (a == NULL || PyDict_SetItemString(out, #name, a) != 0) {                              \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(a);                                                                            \
    }
    PLB_PY_SNAPSHOT(COPY)
#undef COPY
    return out;
}

static PyObject *python_snapshot(const plb_snapshot_t *s)
{
    PyObject *arrays = copies(s);
    PyObject *module = arrays ? PyImport_ImportModule("pylb.model.snapshot") : NULL;
    PyObject *out = module ? PyObject_CallMethod(module, "from_core", "iiO", (int)s->n_ranks,
                                                 (int)s->n_components, arrays)
                           : NULL;
    Py_XDECREF(module);
    Py_XDECREF(arrays);
    return out;
}

/* Ask pylb.strategies for the checked answer, so that wrong shapes and raised errors read well. */
static int ask(PyObject *callable, const plb_snapshot_t *in, int32_t *out)
{
    PyObject *snapshot = python_snapshot(in);
    PyObject *module = snapshot ? PyImport_ImportModule("pylb.place.registry") : NULL;
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
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "the strategy's own error is pending")
                  : PLB_OK;
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
    return Py_BuildValue("sddds"
                         "s",
                         p->name, p->fallback, p->least, p->most, p->unit, p->help);
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
    return params ? Py_BuildValue("ssIssNNzN", s->name, family, s->looks_at, s->help, s->source,
                                  params, PyBool_FromLong(s->agent != NULL), s->library,
                                  PyBool_FromLong(s->for_equal_objects))
                  : NULL;
}

PyDoc_STRVAR(table_doc, "strategies()\n--\n\n"
                        "(name, family, looks_at, help, source, params, distributed, library,\n"
                        "for_equal_objects) of every strategy.");
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

/* Run the strategy and measure what it decided, without the GIL. */
typedef struct call {
    plb_snapshot_t snapshot;
    plb_strategy_t strategy;
    const double *params;
    uint64_t seed;
    int32_t *rank;
    plb_change_t change;
    plb_metrics_t before, after;
    double seconds;
} call_t;

static int run_and_measure(call_t *self, PyThreadState **state, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->snapshot.n_ranks;
    const plb_opts_t opts = {self->params, self->seed, plb_py_tick, state};
    PLB_NEW(self->rank, self->snapshot.n_objects);
    PLB_NEW(self->change.before, p);
    PLB_NEW(self->change.after, p);
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    ret = self->strategy.run(&self->strategy, &self->snapshot, &opts, self->rank, err);
    self->seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    ret = ret == PLB_OK ? plb_snapshot_compare(&self->snapshot, self->rank, &self->change, err)
                        : ret;
    if (ret == PLB_OK) {
        plb_metrics_of(self->change.before, p, &self->before);
        plb_metrics_of(self->change.after, p, &self->after);
    }
out:
    plb_free(self->change.before);
    plb_free(self->change.after);
    return ret;
}

PyDoc_STRVAR(place_doc,
             "place(snapshot, strategy, params, seed, /)\n--\n\n"
             "Run one strategy (name or callable; params in the order of its table).  Returns\n"
             "(rank, before, after, migrations, bytes, seconds), metrics as dicts; the GIL is\n"
             "released while a strategy of the table runs.");
static PyObject *place(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *which, *params, *result = NULL;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "OOOK", &object, &which, &params, &seed)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_err_t err = {0, ""};
    PyArrayObject *values = NULL;
    call_t call = {.seed = seed};
    if (plb_py_strategy(which, &call.strategy) != 0 ||
        plb_py_snapshot(&held, object, &call.snapshot) != 0 ||
        (values = plb_py_hold(&held, params, NPY_FLOAT64, 1)) == NULL) {
        goto out;
    }
    if (call.strategy.run != run_callable && PyArray_SIZE(values) != call.strategy.n_params) {
        PyErr_Format(PyExc_ValueError, "%s takes %d parameters: %zd given", call.strategy.name,
                     call.strategy.n_params, PyArray_SIZE(values));
        goto out;
    }
    call.params = PyArray_DATA(values);
    PyThreadState *state = PyEval_SaveThread();
    const int ret = run_and_measure(&call, &state, &err);
    PyEval_RestoreThread(state);
    if (ret != PLB_OK) {
        plb_free(call.rank);
        plb_py_raise(ret, &err);
        goto out;
    }
    result = Py_BuildValue(
        "NNNLLd", plb_py_take(call.rank, (npy_intp)call.snapshot.n_objects, NPY_INT32),
        plb_py_metrics(&call.before), plb_py_metrics(&call.after),
        (long long)call.change.migrations, (long long)call.change.bytes, call.seconds);
out:
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
