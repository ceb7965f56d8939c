/* Room explore: generated programs, and the best schedule of LB steps. */
#include "bind/views.h"

/* A number that is an attribute, or -1 with an exception. */
static double number(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    const double out = value == NULL ? -1.0 : PyFloat_AsDouble(value);
    Py_XDECREF(value);
    return out;
}

/* An attribute that is an array of n numbers, or None: zeros.  0, or -1 with an exception. */
static int series(plb_py_held_t *held, PyObject *object, const char *name, int64_t n,
                  const double **out)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    PyArrayObject *array = value ? plb_py_hold(held, value, NPY_FLOAT64, 1) : NULL;
    Py_XDECREF(value);
    if (array != NULL && PyArray_SIZE(array) != n) {
        PyErr_Format(PyExc_ValueError, "%s has %zd numbers: expected %lld", name,
                     PyArray_SIZE(array), (long long)n);
    }
    *out = array == NULL ? NULL : PyArray_DATA(array);
    return PyErr_Occurred() ? -1 : 0;
}

/* View a pylb.Imbalance (or any object with its attributes).  0, or -1 with an exception. */
static int view_program(plb_py_held_t *held, PyObject *object, plb_program_t *out)
{
    out->n = (int64_t)number(object, "iterations");
    out->mean = number(object, "mean");
    out->residual = number(object, "residual");
    out->start = number(object, "start");
    return PyErr_Occurred() || series(held, object, "growth", out->n, &out->growth) ||
                   series(held, object, "drift", out->n, &out->drift) ||
                   series(held, object, "noise", out->n, &out->noise)
               ? -1
               : 0;
}

/* (seconds, iterations at whose end to rebalance, bound, exact, strategy of each) */
static PyObject *schedule(plb_optimum_t *best)
{
    npy_intp none = 0;
    PyObject *when = best->when == NULL ? PyArray_SimpleNew(1, &none, NPY_INT64)
                                        : plb_py_take(best->when, (npy_intp)best->n, NPY_INT64);
    PyObject *which = Py_NewRef(Py_None);
    best->when = NULL;
    if (best->which != NULL) {
        Py_SETREF(which, plb_py_take(best->which, (npy_intp)best->n, NPY_INT32));
        best->which = NULL;
    }
    if (when == NULL || which == NULL) {
        Py_XDECREF(when);
        Py_XDECREF(which);
        return NULL;
    }
    return Py_BuildValue("dNdNN", best->time, when, best->bound, PyBool_FromLong(best->exact),
                         which);
}

PyDoc_STRVAR(
    program_optimum_doc,
    "program_optimum(program, cost, /)\n--\n\n"
    "(seconds, iterations at whose end to rebalance, the same seconds, True, None) of the\n"
    "best schedule.");
static PyObject *program_optimum(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *result = NULL;
    plb_optimum_opts_t opts = {.tick = plb_py_tick};
    if (!PyArg_ParseTuple(args, "Od", &object, &opts.cost)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_program_t program = {0};
    if (view_program(&held, object, &program) == 0) {
        plb_optimum_t best;
        plb_err_t err = {0, ""};
        PyThreadState *state = PyEval_SaveThread();
        opts.tick_arg = &state;
        const int ret = plb_optimum_of_program(&best, &program, &opts, &err);
        PyEval_RestoreThread(state);
        result = ret == PLB_OK ? schedule(&best) : plb_py_raise(ret, &err);
        plb_optimum_free(&best);
    }
    plb_py_release(&held);
    return result;
}

PyDoc_STRVAR(program_run_doc,
             "program_run(program, trigger, cost, /)\n--\n\n"
             "(seconds of each iteration, iterations at whose end it balanced) under a fresh\n"
             "trigger.");
static PyObject *program_run(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *which, *result = NULL;
    double cost;
    if (!PyArg_ParseTuple(args, "OOd", &object, &which, &cost)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_program_t program = {0};
    plb_trigger_t *trigger = plb_py_trigger(which);
    if (trigger != NULL && view_program(&held, object, &program) == 0) {
        double *time = plb_malloc((size_t)program.n, sizeof *time);
        int64_t *when = plb_malloc((size_t)program.n, sizeof *when), n = 0;
        plb_err_t err = {0, ""};
        const int ret = time == NULL || when == NULL
                            ? PLB_FAIL(&err, PLB_ERR_NOMEM, "out of memory: a generated run")
                            : plb_program_run(&program, trigger, cost, time, when, &n, &err);
        if (ret == PLB_OK) {
            result = Py_BuildValue("NN", plb_py_take(time, (npy_intp)program.n, NPY_FLOAT64),
                                   plb_py_take(when, (npy_intp)n, NPY_INT64));
        } else {
            plb_free(time);
            plb_free(when);
            plb_py_raise(ret, &err);
        }
    }
    plb_py_release(&held);
    return result;
}

/* Strategies as (entry of the table or callable, what it looks at), and the parameters of all of
 * them, one after the other.  0, or -1 with an exception. */
static int candidates_of(PyObject *rows, PyArrayObject *values, plb_candidate_strategy_t *out)
{
    const double *params = PyArray_DATA(values);
    npy_intp n = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++) {
        PyObject *what;
        unsigned looks_at;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "OI:strategies", &what, &looks_at) ||
            plb_py_strategy(what, &out[i].strategy) != 0) {
            return -1;
        }
        out[i].strategy.looks_at = looks_at;
        out[i].params = params + n;
        n += out[i].strategy.n_params;
    }
    if (n != PyArray_SIZE(values)) {
        PyErr_Format(PyExc_ValueError, "the strategies take %zd parameters: %zd given", n,
                     PyArray_SIZE(values));
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(trace_optimum_doc,
             "trace_optimum(trace, strategies, params, cost, seed, width, upper, /)\n--\n\n"
             "(seconds, phases at whose end to rebalance, bound, exact, which strategy) of the\n"
             "best schedule found; seconds are inf where none is below `upper`.");
static PyObject *trace_optimum(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *rows, *params, *result = NULL;
    unsigned long long seed;
    long long width;
    plb_optimum_opts_t opts = {.tick = plb_py_tick};
    if (!PyArg_ParseTuple(args, "OO!OdKLd", &object, &PyTuple_Type, &rows, &params, &opts.cost,
                          &seed, &width, &opts.upper)) {
        return NULL;
    }
    opts.seed = seed;
    opts.width = width;
    plb_py_held_t held = {0};
    plb_trace_t trace;
    const Py_ssize_t n = PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *strategy = plb_malloc((size_t)n, sizeof *strategy);
    PyArrayObject *values = NULL;
    if (strategy == NULL) {
        PyErr_NoMemory();
    } else if (plb_py_trace(&held, object, &trace) == 0 &&
               (values = plb_py_hold(&held, params, NPY_FLOAT64, 1)) != NULL &&
               candidates_of(rows, values, strategy) == 0) {
        plb_optimum_t best;
        plb_err_t err = {0, ""};
        PyThreadState *state = PyEval_SaveThread();
        opts.tick_arg = &state;
        const int ret = plb_optimum_of_trace(&best, &trace, strategy, (int32_t)n, &opts, &err);
        PyEval_RestoreThread(state);
        result = ret == PLB_OK ? schedule(&best) : plb_py_raise(ret, &err);
        plb_optimum_free(&best);
    }
    plb_free(strategy);
    plb_py_release(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"program_optimum", program_optimum, METH_VARARGS, program_optimum_doc},
    {"program_run", program_run, METH_VARARGS, program_run_doc},
    {"trace_optimum", trace_optimum, METH_VARARGS, trace_optimum_doc},
    {0},
};

int plb_py_add_optimum(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
