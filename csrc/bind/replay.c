/* Room explore: the replay of a recorded run. */
#include "bind/views.h"

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

/* ---- the type ------------------------------------------------------------------------------- */

typedef struct replay_object {
    PyObject ob_base;
    plb_replay_t core;
    PyObject *decider;          /* owned, or None */
    plb_measured_step_t *steps; /* owned */
} replay_object_t;

static plb_replay_t *core_of(PyObject *object)
{
    return &((replay_object_t *)object)->core;
}

/* (iteration, strategy, migrations, bytes, statistics, placing, migration, whole) of each. */
static int steps_of(replay_object_t *self, PyObject *rows, plb_replay_opts_t *opts)
{
    const Py_ssize_t n = PyList_GET_SIZE(rows);
    self->steps = plb_malloc((size_t)n, sizeof *self->steps);
    if (self->steps == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        plb_measured_step_t *s = &self->steps[i];
        long long iteration, migrations, bytes;
        int strategy;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, i), "LiLLdddd:step", &iteration, &strategy,
                              &migrations, &bytes, &s->statistics, &s->placing, &s->migration,
                              &s->whole)) {
            return -1;
        }
        s->iteration = iteration;
        s->strategy = strategy;
        s->migrations = migrations;
        s->bytes = bytes;
    }
    opts->steps = self->steps;
    opts->n_steps = n;
    return 0;
}

static int parse(PyObject *args, PyObject *kwargs, plb_replay_opts_t *o, PyObject **decider,
                 PyObject **steps)
{
    static char *names[] = {"n_ranks",  "decider", "lag",        "as_recorded", "foresight",
                            "moves",    "network", "cost",       "model",       "per_move",
                            "per_byte", "steps",   "keep_times", "keep_ranks",  NULL};
    int n_ranks, lag, as_recorded, foresight, moves, keep_times, keep_ranks;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "$iOippp(dd)d(ddddd)ddO!pp:Replay", names, &n_ranks, decider, &lag,
            &as_recorded, &foresight, &moves, &o->network.alpha, &o->network.beta, &o->cost,
            &o->model.alpha, &o->model.beta, &o->model.steps, &o->model.handling, &o->model.pace,
            &o->per_move, &o->per_byte, &PyList_Type, steps, &keep_times, &keep_ranks)) {
        return -1;
    }
    o->n_ranks = n_ranks;
    o->lag = lag;
    o->as_recorded = as_recorded;
    o->foresight = foresight;
    o->moves = moves;
    o->keep_times = keep_times;
    o->keep_ranks = keep_ranks;
    return 0;
}

static PyObject *replay_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    plb_replay_opts_t opts = {0};
    PyObject *decider, *steps;
    plb_err_t err = {0, ""};
    if (parse(args, kwargs, &opts, &decider, &steps) != 0 ||
        (decider != Py_None && (opts.decider = plb_py_decider(decider)) == NULL)) {
        return NULL;
    }
    replay_object_t *self = (replay_object_t *)type->tp_alloc(type, 0);
    if (self == NULL || steps_of(self, steps, &opts) != 0) {
        Py_XDECREF(self);
        return NULL;
    }
    self->decider = Py_NewRef(decider);
    const int ret = plb_replay_init(&self->core, &opts, &err);
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void replay_dealloc(PyObject *object)
{
    replay_object_t *self = (replay_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    plb_replay_free(&self->core);
    plb_free(self->steps);
    Py_XDECREF(self->decider);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(loop_doc, "loop($self, first, n, cost, /)\n--\n\n"
                       "A loop of n iterations begins with the next phases; cost: seconds that a\n"
                       "first LB step may take, or nan.");
static PyObject *replay_loop(PyObject *object, PyObject *args)
{
    long long first, n;
    plb_loop_t loop;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "LLd", &first, &n, &loop.cost)) {
        return NULL;
    }
    loop.first = first;
    loop.n = n;
    const int ret = plb_replay_loop(core_of(object), &loop, &err);
    return ret == PLB_OK ? Py_NewRef(Py_None) : plb_py_raise(ret, &err);
}

typedef int (*run_fn)(plb_replay_t *self, const void *arg, plb_err_t *err);

/* Without the interpreter's lock. */
static PyObject *run(PyObject *object, run_fn fn, const void *arg)
{
    plb_replay_t *core = core_of(object);
    plb_err_t err = {0, ""};
    PyThreadState *state = PyEval_SaveThread();
    core->opt.tick = plb_py_tick;
    core->opt.tick_arg = &state;
    const int ret = fn(core, arg, &err);
    PyEval_RestoreThread(state);
    return ret == PLB_OK ? Py_NewRef(Py_None) : plb_py_raise(ret, &err);
}

static int feed(plb_replay_t *self, const void *trace, plb_err_t *err)
{
    return plb_replay_feed(self, trace, err);
}

typedef struct ending {
    const uint8_t *stays;
    bool early;
} ending_t;

static int settle(plb_replay_t *self, const void *arg, plb_err_t *err)
{
    const ending_t *ending = arg;
    return plb_replay_settle(self, ending->stays, ending->early, err);
}

PyDoc_STRVAR(feed_doc, "feed($self, trace, /)\n--\n\n"
                       "The next phases, with the same numbers for the same entities.");
static PyObject *replay_feed(PyObject *object, PyObject *arg)
{
    plb_py_held_t held = {0};
    plb_trace_t trace;
    PyObject *out = plb_py_trace(&held, arg, &trace) == 0 ? run(object, feed, &trace) : NULL;
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(settle_doc, "settle($self, stays, early=False, /)\n--\n\n"
                         "No more phases are under way: the decider learns of the last one.\n"
                         "stays: bool of each entity, whether it is still there; None: all are.\n"
                         "early: the loop was left before its end, and another one follows.");
static PyObject *replay_settle(PyObject *object, PyObject *args)
{
    plb_py_held_t held = {0};
    ending_t ending = {NULL, false};
    PyObject *arg;
    int early = 0;
    if (!PyArg_ParseTuple(args, "O|p:settle", &arg, &early)) {
        return NULL;
    }
    ending.early = early;
    const int64_t n = core_of(object)->phases.n_entities;
    PyObject *out = plb_py_view(&held, arg, "stays", NPY_BOOL, n, &ending.stays) == 0
                        ? run(object, settle, &ending)
                        : NULL;
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(metrics_doc, "metrics($self, begin, /)\n--\n\n"
                          "(metrics as a dict of arrays, seconds) of the phases from `begin` on.");
static PyObject *replay_metrics(PyObject *object, PyObject *arg)
{
    const plb_replay_t *self = core_of(object);
    const long long begin = PyLong_AsLongLong(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (begin < 0 || begin > self->n) {
        return PyErr_Format(PyExc_ValueError, "begin is %lld: expected 0 ... %lld", begin,
                            (long long)self->n);
    }
    const npy_intp n = (npy_intp)(self->n - begin);
    PyObject *seconds = PyArray_SimpleNew(1, &n, NPY_FLOAT64);
    if (seconds != NULL && n > 0) {
        memcpy(PyArray_DATA((PyArrayObject *)seconds), self->seconds + begin,
               (size_t)n * sizeof *self->seconds);
    }
    PyObject *metrics = seconds ? metrics_arrays(n > 0 ? self->metrics + begin : NULL, n) : NULL;
    PyObject *out = metrics ? PyTuple_Pack(2, metrics, seconds) : NULL;
    Py_XDECREF(metrics);
    Py_XDECREF(seconds);
    return out;
}

static PyObject *times_of(plb_replay_t *self)
{
    if (self->times == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *flat = plb_py_take(self->times, self->n * self->opt.n_ranks, NPY_FLOAT64);
    self->times = NULL;
    npy_intp shape[2] = {self->n, self->opt.n_ranks};
    PyArray_Dims dims = {shape, 2};
    PyObject *out = flat ? PyArray_Newshape((PyArrayObject *)flat, &dims, NPY_CORDER) : NULL;
    Py_XDECREF(flat);
    return out;
}

static PyObject *ranks_of(plb_replay_t *self)
{
    if (self->rank == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *out = plb_py_take(self->rank, self->tasks, NPY_INT32);
    self->rank = NULL;
    return out;
}

PyDoc_STRVAR(take_doc, "take($self, /)\n--\n\n"
                       "(rank of each task, seconds of each rank in each phase); None for what\n"
                       "was not kept.  Once, at the end: the arrays are handed over.");
static PyObject *replay_take(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *rank = ranks_of(core_of(object));
    PyObject *times = rank ? times_of(core_of(object)) : NULL;
    PyObject *out = times ? PyTuple_Pack(2, rank, times) : NULL;
    Py_XDECREF(times);
    Py_XDECREF(rank);
    return out;
}

static PyMethodDef replay_methods[] = {
    {"loop", replay_loop, METH_VARARGS, loop_doc},
    {"feed", replay_feed, METH_O, feed_doc},
    {"settle", replay_settle, METH_VARARGS, settle_doc},
    {"metrics", replay_metrics, METH_O, metrics_doc},
    {"take", replay_take, METH_NOARGS, take_doc},
    {0},
};

PyDoc_STRVAR(
    replay_doc,
    "Replay(*, n_ranks, decider, lag, as_recorded, foresight, moves, network, cost, model,\n"
    "       per_move, per_byte, steps, keep_times, keep_ranks)\n--\n\n"
    "A recorded run as it would have been under a decider, or None; csrc/explore/replay.h\n"
    "says what the arguments mean.  model: (alpha, beta, steps, handling, pace); steps: those\n"
    "that were measured, (iteration, strategy, migrations, bytes, statistics, placing,\n"
    "migration, whole).");
static PyType_Slot replay_slots[] = {
    {Py_tp_doc, (void *)replay_doc},
    {Py_tp_new, replay_new},
    {Py_tp_dealloc, replay_dealloc},
    {Py_tp_methods, replay_methods},
    {0, NULL},
};

static PyType_Spec replay_spec = {
    .name = "pylb._core.Replay",
    .basicsize = sizeof(replay_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = replay_slots,
};

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
    {0},
};

int plb_py_add_replay(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &replay_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ? -1 : 0;
}
