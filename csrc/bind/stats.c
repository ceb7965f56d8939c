/* The minimal statistics as Python sees them; linked into pylb._core and pylb._mpi. */
#include <math.h>

#include "bind/views.h"

/* Loads of this rank's objects.  The rank's load is their exact sum rounded, not a plain sum, so
 * that the maximum over the ranks is never below the mean. */
static int add_loads(plb_stats_t *s, PyObject *loads)
{
    plb_py_held_t held = {0};
    PyArrayObject *a = plb_py_hold(&held, loads, NPY_FLOAT64, 1);
    const npy_intp n = a ? PyArray_SIZE(a) : 0;
    const double *x = a ? PyArray_DATA(a) : NULL;
    for (npy_intp i = 0; i < n; i++) {
        if (!(x[i] >= 0.0 && x[i] <= 1e30)) {
            PyErr_Format(PyExc_ValueError, "loads[%zd]: expected 0 ... 1e30 seconds", i);
            break;
        }
        plb_exact_add(&s->load_sum, x[i]);
    }
    s->load_max = plb_exact_value(&s->load_sum);
    plb_py_release(&held);
    return PyErr_Occurred() ? -1 : 0;
}

int plb_py_sample(PyObject *sample, int rank, plb_stats_t *out)
{
    long long kind, iteration, arguments, n_objects, messages, bytes, changed;
    double idle, time, cost;
    int failed;
    PyObject *loads;
    plb_stats_init(out);
    if (!PyArg_ParseTuple(sample, "LLLpLOdLLddL", &kind, &iteration, &arguments, &failed,
                          &n_objects, &loads, &idle, &messages, &bytes, &time, &cost, &changed) ||
        add_loads(out, loads) != 0) {
        return -1;
    }
    out->kind = kind;
    out->iteration = iteration;
    out->arguments = arguments;
    out->n_ranks = 1;
    out->n_objects = n_objects;
    out->n_changed = changed;
    out->messages = messages;
    out->message_bytes = bytes;
    out->load_min = out->load_max;
    out->load_max_rank = rank;
    plb_exact_add(&out->idle_sum, fmax(idle, 0.0));
    out->utilization_min = plb_utilization(out->load_max, fmax(idle, 0.0));
    out->time_max = fmax(time, 0.0); /* the clock may have been set back */
    out->cost_max = fmax(cost, 0.0);
    out->failed_rank = failed ? rank : INT64_MAX;
    return 0;
}

static PyObject *from_exact(const plb_exact_t *x)
{
    return PyFloat_FromDouble(plb_exact_value(x));
}

static PyObject *from_double(const double *x)
{
    return PyFloat_FromDouble(*x);
}

static PyObject *from_int(const int64_t *x)
{
    return PyLong_FromLongLong(*x);
}

#define FROM(p)                                                                                   \
    _Generic((p), const plb_exact_t *: from_exact, const double *: from_double,                   \
             const int64_t *: from_int)(p)

PyObject *plb_py_stats(const plb_stats_t *s)
{
    PyObject *values[] = {
#define X(name, type, rule, unit, help) FROM(&s->name),
        PLB_STATS(X)
#undef X
            PyBool_FromLong(s->flags & PLB_STATS_MIXED),
    };
    const Py_ssize_t n = sizeof values / sizeof *values;
    PyObject *out = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (out != NULL && values[i] != NULL) {
            PyTuple_SET_ITEM(out, i, values[i]);
        } else {
            Py_CLEAR(out);
            Py_XDECREF(values[i]);
        }
    }
    return out;
}
