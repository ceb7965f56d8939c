/* Room measure: clocks, metrics, rank times, evaluation, exact sums. */
#include <math.h>

#include "bind/views.h"

PyObject *plb_py_metrics(const plb_metrics_t *m)
{
    PyObject *out = PyDict_New();
    if (out == NULL) {
        return NULL;
    }
#define X(name, unit, help)                                                                       \
    {                                                                                             \
        PyObject *value = PyFloat_FromDouble(m->name);                                            \
        if (value == NULL || PyDict_SetItemString(out, #name, value) != 0) {                      \
            Py_XDECREF(value);                                                                    \
            Py_DECREF(out);                                                                       \
            return NULL;                                                                          \
        }                                                                                         \
        Py_DECREF(value);                                                                         \
    }
    PLB_METRICS(X)
#undef X
    return out;
}

PyDoc_STRVAR(metrics_doc, "metrics(time, /)\n--\n\nEvery metric of time[p], as a dict.");
static PyObject *metrics(PyObject *module, PyObject *time)
{
    (void)module;
    plb_py_held_t held = {0};
    PyObject *out = NULL;
    PyArrayObject *a = plb_py_hold(&held, time, NPY_FLOAT64, 1);
    if (a != NULL && PyArray_SIZE(a) > 0) {
        const double *t = PyArray_DATA(a);
        plb_metrics_t m;
        plb_metrics_of(t, (int32_t)PyArray_SIZE(a), &m);
        out = plb_py_metrics(&m);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "time is empty: expected one entry for each rank");
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(metrics_table_doc,
             "metrics_table()\n--\n\n(name, unit, help) of every metric, in order.");
static PyObject *metrics_table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *out = PyList_New(0);
#define X(name, unit, help)                                                                       \
    if (out != NULL) {                                                                            \
        PyObject *row = Py_BuildValue("sss", #name, unit, help);                                  \
        if (row == NULL || PyList_Append(out, row) != 0) {                                        \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(row);                                                                          \
    }
    PLB_METRICS(X)
#undef X
    return out;
}

/* The arguments (snapshot, rank=None): views of both, `rank` NULL where it is None, checked. */
static int snapshot_and_rank(PyObject *args, plb_py_held_t *held, plb_snapshot_t *snapshot,
                             const int32_t **rank)
{
    PyObject *object, *given = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &object, &given) ||
        plb_py_snapshot(held, object, snapshot) != 0) {
        return -1;
    }
    *rank = NULL;
    PyArrayObject *where = plb_py_hold(held, given, NPY_INT32, 1);
    if (where == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (PyArray_SIZE(where) != snapshot->n_objects) {
        PyErr_Format(PyExc_ValueError,
                     "placement has %zd entries: expected %lld, one for each object",
                     PyArray_SIZE(where), (long long)snapshot->n_objects);
        return -1;
    }
    plb_err_t err;
    *rank = PyArray_DATA(where);
    const int ret = plb_snapshot_check_placement(snapshot, *rank, &err);
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
    }
    return ret == PLB_OK ? 0 : -1;
}

PyDoc_STRVAR(rank_times_doc, "rank_times(snapshot, rank=None, /)\n--\n\n"
                             "Seconds of each rank in an iteration under the placement `rank`.");
static PyObject *rank_times(PyObject *module, PyObject *args)
{
    (void)module;
    plb_py_held_t held = {0};
    plb_snapshot_t snapshot;
    const int32_t *rank;
    PyObject *out = NULL;
    if (snapshot_and_rank(args, &held, &snapshot, &rank) == 0) {
        npy_intp p = snapshot.n_ranks;
        out = PyArray_SimpleNew(1, &p, NPY_FLOAT64);
    }
    if (out != NULL) {
        plb_snapshot_rank_times(&snapshot, rank, PyArray_DATA((PyArrayObject *)out));
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(
    phase_times_doc,
    "phase_times(snapshot, alpha, beta, /)\n--\n\n"
    "The same with the messages that each rank sends to others: alpha seconds each, beta\n"
    "seconds a byte.");
static PyObject *phase_times(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *out = NULL;
    plb_network_t network;
    plb_py_held_t held = {0};
    plb_snapshot_t snapshot;
    plb_err_t err = {0, ""};
    if (PyArg_ParseTuple(args, "Odd", &object, &network.alpha, &network.beta) &&
        plb_py_snapshot(&held, object, &snapshot) == 0) {
        npy_intp p = snapshot.n_ranks;
        out = PyArray_SimpleNew(1, &p, NPY_FLOAT64);
    }
    if (out != NULL) {
        double *time = PyArray_DATA((PyArrayObject *)out);
        const int ret = plb_phase_times(&snapshot, NULL, network, time, &err);
        if (ret != PLB_OK) {
            Py_SETREF(out, plb_py_raise(ret, &err));
        }
    }
    plb_py_release(&held);
    return out;
}

static PyObject *of_double(double value)
{
    return PyFloat_FromDouble(value);
}

static PyObject *of_int64_t(int64_t value)
{
    return PyLong_FromLongLong(value);
}

static PyObject *evaluation_dict(const plb_evaluation_t *e)
{
    PyObject *out = PyDict_New();
#define X(type, name, unit, help)                                                                 \
    if (out != NULL) {                                                                            \
        PyObject *value = of_##type(e->name);                                                     \
        if (value == NULL || PyDict_SetItemString(out, #name, value) != 0) {                      \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(value);                                                                        \
    }
    PLB_EVALUATION(X)
#undef X
    return out;
}

PyDoc_STRVAR(evaluate_doc, "evaluate(snapshot, rank=None, /)\n--\n\n"
                           "Messages, memory and migrations of the placement `rank`, as a dict.");
static PyObject *evaluate(PyObject *module, PyObject *args)
{
    (void)module;
    plb_py_held_t held = {0};
    plb_snapshot_t snapshot;
    const int32_t *rank;
    PyObject *out = NULL;
    if (snapshot_and_rank(args, &held, &snapshot, &rank) == 0) {
        plb_evaluation_t e;
        plb_err_t err;
        int ret;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_evaluate(&snapshot, rank, &e, &err);
        Py_END_ALLOW_THREADS;
        out = ret == PLB_OK ? evaluation_dict(&e) : plb_py_raise(ret, &err);
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(check_snapshot_doc,
             "check_snapshot(snapshot, /)\n--\n\nRaise for the first value that is out of place.");
static PyObject *check_snapshot(PyObject *module, PyObject *object)
{
    (void)module;
    plb_py_held_t held = {0};
    plb_snapshot_t snapshot;
    plb_err_t err;
    int ret = PLB_OK;
    if (plb_py_snapshot(&held, object, &snapshot) == 0) {
        ret = plb_snapshot_check(&snapshot, &err);
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
        }
    }
    plb_py_release(&held);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(exact_sum_doc,
             "exact_sum(values, /)\n--\n\n"
             "Sum of values in [0, 1e30], rounded once: the statistics' own sum of seconds.");
static PyObject *exact_sum(PyObject *module, PyObject *values)
{
    (void)module;
    plb_py_held_t held = {0};
    PyObject *out = NULL;
    PyArrayObject *a = plb_py_hold(&held, values, NPY_FLOAT64, 1);
    if (a != NULL) {
        const double *x = PyArray_DATA(a);
        plb_exact_t sum = {{0}};
        npy_intp i, n = PyArray_SIZE(a);
        for (i = 0; i < n && x[i] >= 0.0 && x[i] <= 1e30; i++) {
            plb_exact_add(&sum, x[i]);
        }
        if (i == n) {
            out = PyFloat_FromDouble(plb_exact_value(&sum));
        } else {
            PyErr_Format(PyExc_ValueError, "values[%zd]: expected 0 ... 1e30", i);
        }
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(clock_doc, "clock()\n--\n\n"
                        "Seconds of a clock that never steps back: of the machine, or of the\n"
                        "virtual rank that this thread is.");
static PyObject *clock_(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(PLB_CLOCK_WALL));
}

PyDoc_STRVAR(
    clock_enter_doc,
    "clock_enter(source, seconds, pace, /)\n--\n\n"
    "From here on this thread's time is its own: `seconds` now, and `pace` times as fast\n"
    "as source, \"wall\", \"cpu\" or \"none\".");
static PyObject *clock_enter(PyObject *module, PyObject *args)
{
    (void)module;
    const char *source;
    double seconds, pace;
    if (!PyArg_ParseTuple(args, "sdd", &source, &seconds, &pace)) {
        return NULL;
    }
    plb_clock_enter(*source == 'w'   ? PLB_CLOCK_WALL
                    : *source == 'c' ? PLB_CLOCK_CPU
                                     : PLB_CLOCK_NONE,
                    llround(1e9 * seconds), pace);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(clock_leave_doc, "clock_leave()\n--\n\n"
                              "This thread's time is the machine's again; answers its own.");
static PyObject *clock_leave(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_leave());
}

PyDoc_STRVAR(clock_declare_doc, "clock_declare(seconds, /)\n--\n\n"
                                "So much of this thread's own time passes now.");
static PyObject *clock_declare(PyObject *module, PyObject *seconds)
{
    (void)module;
    const double s = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred()) {
        return NULL;
    }
    plb_clock_declare(llround(1e9 * s));
    Py_RETURN_NONE;
}

/* Contiguous arrays of the loads of n objects and what is known of them; -1 with an exception. */
static int check_loads(PyArrayObject *loads, PyArrayObject *table, PyArrayObject *window)
{
    if (PyArray_TYPE(loads) == NPY_FLOAT64 && PyArray_TYPE(table) == NPY_FLOAT64 &&
        PyArray_TYPE(window) == NPY_FLOAT64 && PyArray_ISCARRAY_RO(loads) &&
        PyArray_ISCARRAY(table) && PyArray_ISCARRAY_RO(window) &&
        PyArray_SIZE(table) == PLB_ESTIMATE_ROWS * PyArray_SIZE(loads) &&
        PyArray_SIZE(window) == PyArray_SIZE(loads)) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError,
                 "loads, table, window: expected contiguous float64 arrays of n, %d x n and n",
                 PLB_ESTIMATE_ROWS);
    return -1;
}

PyDoc_STRVAR(
    estimate_doc,
    "estimate(loads, table, /)\n--\n\n"
    "The loads[n] of a pass enter the table[9, n] of what is known of the objects, in\n"
    "place: estimated load, passes, two rows of the estimator's own, the same four since\n"
    "the object came to its rank, and its load in a pass that may be a spike.");
static PyObject *estimate(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *loads, *table;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &loads, &PyArray_Type, &table) ||
        check_loads(loads, table, loads) != 0) {
        return NULL;
    }
    plb_estimate_update(PyArray_DATA(loads), PyArray_SIZE(loads), PyArray_DATA(table));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(end_pass_doc,
             "end_pass(loads, table, window, /)\n--\n\n"
             "As estimate(), and the loads are added to window[n] and begin anew at zero.");
static PyObject *end_pass(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *loads, *table, *window;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyArray_Type, &loads, &PyArray_Type, &table,
                          &PyArray_Type, &window) ||
        check_loads(loads, table, window) != 0 ||
        PyArray_FailUnlessWriteable(loads, "loads") != 0 ||
        PyArray_FailUnlessWriteable(window, "window") != 0) {
        return NULL;
    }
    const npy_intp n = PyArray_SIZE(loads);
    double *seconds = PyArray_DATA(loads), *sum = PyArray_DATA(window);
    plb_estimate_update(seconds, n, PyArray_DATA(table));
    for (npy_intp i = 0; i < n; i++) {
        sum[i] += seconds[i];
        seconds[i] = 0.0;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"clock", clock_, METH_NOARGS, clock_doc},
    {"clock_enter", clock_enter, METH_VARARGS, clock_enter_doc},
    {"clock_leave", clock_leave, METH_NOARGS, clock_leave_doc},
    {"clock_declare", clock_declare, METH_O, clock_declare_doc},
    {"metrics", metrics, METH_O, metrics_doc},
    {"metrics_table", metrics_table, METH_NOARGS, metrics_table_doc},
    {"rank_times", rank_times, METH_VARARGS, rank_times_doc},
    {"phase_times", phase_times, METH_VARARGS, phase_times_doc},
    {"evaluate", evaluate, METH_VARARGS, evaluate_doc},
    {"check_snapshot", check_snapshot, METH_O, check_snapshot_doc},
    {"exact_sum", exact_sum, METH_O, exact_sum_doc},
    {"estimate", estimate, METH_VARARGS, estimate_doc},
    {"end_pass", end_pass, METH_VARARGS, end_pass_doc},
    {0},
};

int plb_py_add_measure(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
