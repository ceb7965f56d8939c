/* Room explore: the replay of a recorded run. */
#include "views.h"

/* One array for each metric, (n_phases,) float64, as a dict. */
static PyObject *metrics_arrays(const plb_metrics_t *m, npy_intp n)
{
    PyObject *out = PyDict_New();
#define X(name, unit, help)                                                                       \
    if (out != NULL) {                                                                            \
        PyObject *array = PyArray_SimpleNew(1, &n, NPY_FLOAT64);                                  \
        for (npy_intp i = 0; array != NULL && i < n; i++) {                                       \
            ((double *)PyArray_DATA((PyArrayObject *)array))[i] = m[i].name;                      \
        }                                                                                         \
        if (array == NULL || PyDict_SetItemString(out, #name, array) != 0) {                      \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(array);                                                                        \
    }
    PLB_METRICS(X)
#undef X
    return out;
}

static PyObject *decision_row(const plb_decision_t *d)
{
    return Py_BuildValue("LsddLLddNN", (long long)d->phase, plb_reason_words(d->verdict.reason),
                         d->before, d->after, (long long)d->migrations, (long long)d->bytes,
                         d->seconds, d->cost, PyBool_FromLong(d->applied),
                         plb_py_figures(&d->verdict));
}

static PyObject *decision_rows(const plb_replay_t *replay)
{
    PyObject *out = PyList_New(replay->n_decisions);
    for (int64_t i = 0; out != NULL && i < replay->n_decisions; i++) {
        PyObject *row = decision_row(&replay->decisions[i]);
        if (row == NULL) {
            Py_CLEAR(out);
        } else {
            PyList_SET_ITEM(out, i, row);
        }
    }
    return out;
}

static PyObject *times_of(plb_replay_t *replay, const plb_trace_t *trace)
{
    if (replay->times == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *flat = plb_py_take(replay->times, trace->n_phases * trace->n_ranks, NPY_FLOAT64);
    replay->times = NULL;
    npy_intp shape[2] = {trace->n_phases, trace->n_ranks};
    PyArray_Dims dims = {shape, 2};
    PyObject *out = flat ? PyArray_Newshape((PyArrayObject *)flat, &dims, NPY_CORDER) : NULL;
    Py_XDECREF(flat);
    return out;
}

static PyObject *ranks_of(plb_replay_t *replay, const plb_trace_t *trace)
{
    if (replay->rank == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *out = plb_py_take(replay->rank, trace->task_ptr[trace->n_phases], NPY_INT32);
    replay->rank = NULL;
    return out;
}

/* Hands placement and times over to NumPy and copies the rest. */
static PyObject *result_of(plb_replay_t *replay, const plb_trace_t *trace)
{
    PyObject *rank = ranks_of(replay, trace);
    PyObject *times = rank ? times_of(replay, trace) : NULL;
    PyObject *metrics = times ? metrics_arrays(replay->metrics, trace->n_phases) : NULL;
    PyObject *decisions = metrics ? decision_rows(replay) : NULL;
    PyObject *out = decisions ? PyTuple_Pack(4, rank, times, metrics, decisions) : NULL;
    Py_XDECREF(decisions);
    Py_XDECREF(metrics);
    Py_XDECREF(times);
    Py_XDECREF(rank);
    return out;
}

static int run(plb_replay_t *replay, const plb_trace_t *trace, plb_replay_opts_t *opts,
               plb_err_t *err)
{
    PyThreadState *state = PyEval_SaveThread();
    opts->tick = plb_py_tick;
    opts->tick_arg = &state;
    const int ret = plb_replay_run(replay, trace, opts, err);
    PyEval_RestoreThread(state);
    return ret;
}

PyDoc_STRVAR(
    replay_doc,
    "replay(trace, strategy, params, seed, trigger, foresight, cost, migration_alpha,\n"
    "       migration_beta, alpha, beta, keep_times, /)\n--\n\n"
    "Run through all phases.  Strategy: name or callable; trigger: fresh, or None; cost:\n"
    "nan is measured.  Returns (rank or None: as recorded, times of the ranks or None, metrics\n"
    "as dict of arrays, decisions).");
static PyObject *replay(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *which, *params, *trigger, *result = NULL;
    unsigned long long seed;
    int foresight, keep_times;
    plb_replay_opts_t opts = {0};
    if (!PyArg_ParseTuple(args, "OOOKOpdddddp", &object, &which, &params, &seed, &trigger,
                          &foresight, &opts.cost, &opts.migration_alpha, &opts.migration_beta,
                          &opts.alpha, &opts.beta, &keep_times)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_trace_t trace;
    plb_strategy_t strategy;
    plb_replay_t out = {0};
    plb_err_t err = {0, ""};
    PyArrayObject *values = NULL;
    if (plb_py_strategy(which, &strategy) != 0 || plb_py_trace(&held, object, &trace) != 0 ||
        (values = plb_py_hold(&held, params, NPY_FLOAT64, 1)) == NULL ||
        (trigger != Py_None && (opts.trigger = plb_py_trigger(trigger)) == NULL)) {
        goto out;
    }
    if (strategy.user == NULL && PyArray_SIZE(values) != strategy.n_params) {
        PyErr_Format(PyExc_ValueError, "%s takes %d parameters: %zd given", strategy.name,
                     strategy.n_params, PyArray_SIZE(values));
        goto out;
    }
    opts.strategy = &strategy;
    opts.params = PyArray_DATA(values);
    opts.seed = seed;
    opts.foresight = foresight;
    opts.keep_times = keep_times;
    const int ret = run(&out, &trace, &opts, &err);
    result = ret == PLB_OK ? result_of(&out, &trace) : plb_py_raise(ret, &err);
out:
    plb_replay_free(&out);
    plb_py_release(&held);
    return result;
}

PyDoc_STRVAR(
    repeats_doc,
    "repeats(trace, /)\n--\n\n"
    "For each phase, uint8: 1 if it has the tasks of the one before, 3 if also its edges.");
static PyObject *repeats(PyObject *module, PyObject *object)
{
    (void)module;
    plb_py_held_t held = {0};
    plb_trace_t trace;
    plb_err_t err = {0, ""};
    PyObject *out = NULL;
    if (plb_py_trace(&held, object, &trace) == 0) {
        const npy_intp n = trace.n_phases;
        out = PyArray_SimpleNew(1, &n, NPY_UINT8);
    }
    if (out != NULL) {
        int ret;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_trace_repeats(&trace, PyArray_DATA((PyArrayObject *)out), &err);
        Py_END_ALLOW_THREADS;
        if (ret != PLB_OK) {
            Py_SETREF(out, plb_py_raise(ret, &err));
        }
    }
    plb_py_release(&held);
    return out;
}

static PyMethodDef methods[] = {
    {"repeats", repeats, METH_O, repeats_doc},
    {"replay", replay, METH_VARARGS, replay_doc},
    {0},
};

int plb_py_add_replay(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
