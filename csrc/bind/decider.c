/* Room decide: the decider as a Python object. */
#include "bind/views.h"

#include <math.h>

typedef struct decider_object {
    PyObject ob_base;
    plb_decider_t core;
    PyObject *trigger, *candidates; /* owned: the core borrows what is in them */
    bool busy;                      /* a thread places with it, without the interpreter's lock */
} decider_object_t;

plb_decider_t *plb_py_decider(PyObject *object)
{
    PyObject *module = PyImport_ImportModule("pylb._core");
    PyObject *type = module ? PyObject_GetAttrString(module, "Decider") : NULL;
    const int is = type ? PyObject_IsInstance(object, type) : -1;
    Py_XDECREF(type);
    Py_XDECREF(module);
    if (is == 0) {
        PyErr_Format(PyExc_TypeError, "decider is %R: expected a pylb._core.Decider", object);
    }
    return is == 1 ? &((decider_object_t *)object)->core : NULL;
}

static plb_decider_t *core_of(PyObject *object)
{
    return &((decider_object_t *)object)->core;
}

static PyObject *none_or(int ret, const plb_err_t *err)
{
    return ret == PLB_OK ? Py_NewRef(Py_None) : plb_py_raise(ret, err);
}

/* ---- libraries, loaded when the first strategy that needs them is chosen ---- */

/* pylb.partition.libraries.load(library); 0, or -1 with an exception. */
static int load(const char *library)
{
    PyObject *module = PyImport_ImportModule("pylb.partition.libraries");
    PyObject *done = module ? PyObject_CallMethod(module, "load", "s", library) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int run_with_library(const plb_strategy_t *self, const plb_snapshot_t *in,
                            const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    if (plb_partitioner_find(self->library) == NULL) {
        PyGILState_STATE state = PyGILState_Ensure();
        const int failed = load(self->library);
        PyGILState_Release(state);
        if (failed) {
            return PLB_FAIL(err, PLB_ERR_CALLBACK, "%s could not be loaded", self->library);
        }
    }
    const plb_strategy_t *whole = plb_strategy_find(self->name);
    return whole->run(whole, in, opts, out, err);
}

/* ---- a new one ---- */

/* (what, name, refinement, looks_at, params): an entry of the table or a callable. */
static int candidate_of(PyObject *row, plb_py_held_t *held, plb_candidate_strategy_t *out)
{
    PyObject *what, *params;
    const char *name;
    int refinement;
    unsigned looks_at;
    if (!PyArg_ParseTuple(row, "OspIO:candidate", &what, &name, &refinement, &looks_at, &params) ||
        plb_py_strategy(what, &out->strategy) != 0) {
        return -1;
    }
    PyArrayObject *values = plb_py_hold(held, params, NPY_FLOAT64, 1);
    if (values == NULL || PyArray_SIZE(values) != out->strategy.n_params) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "%s takes %d parameters", name, out->strategy.n_params);
        }
        return -1;
    }
    if (out->strategy.library != NULL) {
        out->strategy.run = run_with_library;
    }
    out->strategy.name = name;
    out->strategy.family = refinement ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    out->strategy.looks_at = looks_at;
    out->params = PyArray_DATA(values);
    return 0;
}

static int candidates_of(PyObject *rows, plb_py_held_t *held, plb_candidate_strategy_t *out)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++) {
        if (candidate_of(PyTuple_GET_ITEM(rows, i), held, &out[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int parse(PyObject *args, PyObject *kwargs, plb_decider_options_t *opt, PyObject **objects)
{
    static char *names[] = {"n_ranks",  "candidates", "trigger", "selects", "selection", "ledger",
                            "gives_up", "learns",     "watches", "network", "seed",      NULL};
    int n_ranks, selects, gives_up, learns, watches;
    unsigned long long seed;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$iO!OpOOppp(dd)K:Decider", names, &n_ranks,
                                     &PyTuple_Type, &objects[0], &objects[1], &selects,
                                     &objects[2], &objects[3], &gives_up, &learns, &watches,
                                     &opt->network.alpha, &opt->network.beta, &seed)) {
        return -1;
    }
    opt->n_ranks = n_ranks;
    opt->n = (int32_t)PyTuple_GET_SIZE(objects[0]);
    opt->selects = selects;
    opt->gives_up = gives_up;
    opt->learns = learns;
    opt->watches = watches;
    opt->seed = seed;
    return 0;
}

static PyObject *decider_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    plb_decider_options_t opt = {0};
    PyObject *objects[4]; /* candidates, trigger, parameters of selection and ledger */
    plb_py_held_t held = {0};
    plb_err_t err = {0, ""};
    if (parse(args, kwargs, &opt, objects) != 0) {
        return NULL;
    }
    decider_object_t *self = NULL;
    plb_candidate_strategy_t *candidates = plb_malloc((size_t)opt.n, sizeof *candidates);
    plb_trigger_t *trigger = plb_py_trigger(objects[1]);
    if (candidates == NULL) {
        PyErr_NoMemory();
    }
    if (trigger == NULL || candidates == NULL ||
        candidates_of(objects[0], &held, candidates) != 0 ||
        plb_py_view(&held, objects[2], "selection", NPY_FLOAT64, PLB_N_SELECTION,
                    &opt.selection) != 0 ||
        plb_py_view(&held, objects[3], "ledger", NPY_FLOAT64, PLB_N_LEDGER, &opt.ledger) != 0 ||
        (self = (decider_object_t *)type->tp_alloc(type, 0)) == NULL) {
        goto out;
    }
    opt.candidates = candidates;
    const int ret = plb_decider_init(&self->core, &opt, trigger, &err);
    self->candidates = Py_NewRef(objects[0]);
    self->trigger = Py_NewRef(objects[1]);
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        Py_CLEAR(self);
    }
out:
    plb_free(candidates);
    plb_py_release(&held);
    return (PyObject *)self;
}

static void decider_dealloc(PyObject *object)
{
    decider_object_t *self = (decider_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    plb_decider_free(&self->core);
    Py_XDECREF(self->trigger);
    Py_XDECREF(self->candidates);
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- an iteration ---- */

PyDoc_STRVAR(network_doc,
             "network($self, alpha, beta, /)\n--\n\n"
             "What a message and a byte cost in seconds; before the first iteration.");
static PyObject *decider_network(PyObject *object, PyObject *args)
{
    plb_network_t network;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "dd", &network.alpha, &network.beta)) {
        return NULL;
    }
    return none_or(plb_decider_network(core_of(object), network, &err), &err);
}

PyDoc_STRVAR(expect_doc,
             "expect($self, end, cost, /)\n--\n\n"
             "The number behind the last iteration, None where it is not known; the seconds that\n"
             "a first LB step may cost, nan where they are not known.");
static PyObject *decider_expect(PyObject *object, PyObject *args)
{
    PyObject *end;
    double cost;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Od", &end, &cost)) {
        return NULL;
    }
    const long long last = end == Py_None ? INT64_MAX : PyLong_AsLongLong(end);
    if (PyErr_Occurred()) {
        return NULL;
    }
    return none_or(plb_decider_expect(core_of(object), (int64_t)last, cost, &err), &err);
}

PyDoc_STRVAR(observe_doc,
             "observe($self, iteration, time, max, mean, min, total, utilization, messages,\n"
             "        bytes, /)\n--\n\n"
             "An iteration is over: seconds of the slowest rank; maximum, mean, minimum and sum\n"
             "of the ranks' loads; the lowest utilization; messages and bytes between ranks.\n"
             "True: the trigger asks for an LB step.");
static PyObject *decider_observe(PyObject *object, PyObject *args)
{
    plb_iteration_t it;
    long long iteration, messages, bytes;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "LddddddLL", &iteration, &it.time, &it.max, &it.mean, &it.min,
                          &it.total, &it.utilization, &messages, &bytes)) {
        return NULL;
    }
    it.iteration = iteration;
    it.messages = messages;
    it.bytes = bytes;
    const int ret = plb_decider_observe(core_of(object), &it, &err);
    return ret == PLB_OK ? PyBool_FromLong(core_of(object)->trigger->verdict.balance)
                         : plb_py_raise(ret, &err);
}

static PyObject *ask_or_raise(int ret, plb_ask_t ask, const plb_err_t *err)
{
    return ret == PLB_OK ? PyLong_FromLong(ask) : plb_py_raise(ret, err);
}

PyDoc_STRVAR(next_doc, "next($self, asked, may_look, /)\n--\n\n"
                       "What to do now: 0 nothing, 1 weigh, 2 look, 3 rebalance.");
static PyObject *decider_next(PyObject *object, PyObject *args)
{
    int asked, may_look;
    plb_ask_t ask = PLB_ASK_NOTHING;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "pp", &asked, &may_look)) {
        return NULL;
    }
    const int ret = plb_decider_next(core_of(object), asked, may_look, &ask, &err);
    return ask_or_raise(ret, ask, &err);
}

PyDoc_STRVAR(weigh_doc, "weigh($self, gain, /)\n--\n\n"
                        "Seconds that the last LB step has saved up to now.");
static PyObject *decider_weigh(PyObject *object, PyObject *arg)
{
    plb_err_t err;
    const double gain = PyFloat_AsDouble(arg);
    return PyErr_Occurred() ? NULL : none_or(plb_decider_weigh(core_of(object), gain, &err), &err);
}

PyDoc_STRVAR(looked_doc, "looked($self, gain, /)\n--\n\n"
                         "The answer of `look`, on all ranks: 0 nothing, 3 rebalance.");
static PyObject *decider_looked(PyObject *object, PyObject *arg)
{
    plb_err_t err;
    plb_ask_t ask = PLB_ASK_NOTHING;
    const double gain = PyFloat_AsDouble(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    const int ret = plb_decider_looked(core_of(object), gain, &ask, &err);
    return ask_or_raise(ret, ask, &err);
}

/* ---- an LB step ---- */

PyDoc_STRVAR(
    choose_doc,
    "choose($self, reason=-1, /)\n--\n\n"
    "An LB step begins.  reason: number of the verdict that asked for it, where that is\n"
    "not the last one.  Returns (index of the strategy, index of the refinement that may\n"
    "stand in for it, or -1).");
static PyObject *decider_choose(PyObject *object, PyObject *args)
{
    plb_decider_t *self = core_of(object);
    int reason = -1;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "|i", &reason)) {
        return NULL;
    }
    if (reason > PLB_REASON_PAYS) {
        return PyErr_Format(PyExc_ValueError, "reason is %d: expected up to %d", reason,
                            PLB_REASON_PAYS);
    }
    plb_verdict_t why = self->trigger->verdict;
    why.reason = (plb_reason_t)reason;
    const int ret = plb_decider_choose(self, reason < 0 ? NULL : &why, &err);
    return ret == PLB_OK ? Py_BuildValue("ii", (int)self->chosen, (int)self->instead)
                         : plb_py_raise(ret, &err);
}

static int database_of(plb_py_held_t *held, PyObject *snapshot, PyObject *here, PyObject *work,
                       plb_database_t *out)
{
    if (plb_py_snapshot(held, snapshot, &out->snapshot) != 0) {
        return -1;
    }
    if (out->snapshot.key == NULL && here != Py_None) {
        PyErr_SetString(PyExc_ValueError, "the snapshot has no keys, by which speeds are learned");
        return -1;
    }
    const int64_t n = out->snapshot.n_objects;
    out->here = out->work = NULL;
    return plb_py_view(held, here, "here", NPY_FLOAT64, n, &out->here) != 0 ||
                   plb_py_view(held, work, "work", NPY_FLOAT64, n, &out->work) != 0
               ? -1
               : 0;
}

/* A writable contiguous array of that type and size. */
static void *room_of(PyObject *object, const char *name, int type, npy_intp n)
{
    PyArrayObject *a = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_TYPE(a) != type || PyArray_SIZE(a) != n ||
        !PyArray_ISCARRAY(a)) {
        PyErr_Format(PyExc_ValueError, "%s: expected a contiguous array of %zd entries", name, n);
        return NULL;
    }
    return PyArray_DATA(a);
}

static bool begin_work(decider_object_t *self)
{
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread places with this decider");
        return false;
    }
    return self->busy = true;
}

enum { N_PLACING = sizeof(plb_placing_t) / sizeof(double) };

PyDoc_STRVAR(place_doc,
             "place($self, snapshot, here, work, figures, speed, rank, /)\n--\n\n"
             "Place the objects, where the loads are.  here: mean seconds on the present rank;\n"
             "work: the user's estimates; both (n,) float64 or None.  Fills figures, a float64\n"
             "array of PLACING entries, speed (p,) float64 (zero: alike) and rank (n,) int32.");
static PyObject *decider_place(PyObject *object, PyObject *args)
{
    decider_object_t *self = (decider_object_t *)object;
    PyObject *snapshot, *here, *work, *figures, *speed, *rank;
    plb_py_held_t held = {0};
    plb_database_t db;
    plb_err_t err = {0, ""};
    PyObject *out = NULL;
    if (!PyArg_ParseTuple(args, "OOOOOO", &snapshot, &here, &work, &figures, &speed, &rank) ||
        database_of(&held, snapshot, here, work, &db) != 0) {
        goto out;
    }
    plb_placing_t *placing = room_of(figures, "figures", NPY_FLOAT64, N_PLACING);
    double *speeds = room_of(speed, "speed", NPY_FLOAT64, self->core.opt.n_ranks);
    int32_t *ranks = room_of(rank, "rank", NPY_INT32, (npy_intp)db.snapshot.n_objects);
    if (placing == NULL || speeds == NULL || ranks == NULL || !begin_work(self)) {
        goto out;
    }
    PyThreadState *state = PyEval_SaveThread();
    const plb_opts_t opts = {.tick = plb_py_tick, .tick_arg = &state};
    const int ret = plb_decider_place(&self->core, &db, &opts, ranks, speeds, placing, &err);
    PyEval_RestoreThread(state);
    self->busy = false;
    out = none_or(ret, &err);
out:
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(look_doc,
             "look($self, snapshot, here, work, /)\n--\n\n"
             "Seconds an iteration that a placement by the ranks' speeds, as they are known now,\n"
             "would save; 0 where they show no sign of being unlike.  Where the loads are.");
static PyObject *decider_look(PyObject *object, PyObject *args)
{
    decider_object_t *self = (decider_object_t *)object;
    PyObject *snapshot, *here, *work, *out = NULL;
    plb_py_held_t held = {0};
    plb_database_t db;
    plb_err_t err = {0, ""};
    double gain = 0.0;
    if (!PyArg_ParseTuple(args, "OOO", &snapshot, &here, &work) ||
        database_of(&held, snapshot, here, work, &db) != 0 || !begin_work(self)) {
        goto out;
    }
    PyThreadState *state = PyEval_SaveThread();
    const plb_opts_t opts = {.tick = plb_py_tick, .tick_arg = &state};
    const int ret = plb_decider_look(&self->core, &db, &opts, &gain, &err);
    PyEval_RestoreThread(state);
    self->busy = false;
    out = ret == PLB_OK ? PyFloat_FromDouble(gain) : plb_py_raise(ret, &err);
out:
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(placed_doc,
             "placed($self, figures, speed, /)\n--\n\n"
             "What the placing rank has found, on all ranks: as `place` has filled them.");
static PyObject *decider_placed(PyObject *object, PyObject *args)
{
    PyObject *figures, *speed;
    plb_py_held_t held = {0};
    plb_err_t err = {0, ""};
    const double *values = NULL, *speeds = NULL;
    PyObject *out = NULL;
    if (PyArg_ParseTuple(args, "OO", &figures, &speed) &&
        plb_py_view(&held, figures, "figures", NPY_FLOAT64, N_PLACING, &values) == 0 &&
        plb_py_view(&held, speed, "speed", NPY_FLOAT64, core_of(object)->opt.n_ranks, &speeds) ==
            0) {
        plb_placing_t placing;
        memcpy(&placing, values, sizeof placing);
        out = none_or(plb_decider_placed(core_of(object), &placing, speeds, &err), &err);
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(balanced_doc,
             "balanced($self, migrations, bytes, seconds_migration, cost, moved, given=False, /)\n"
             "--\n\n"
             "The LB step is over.  given: `cost` is what it cost, whatever its parts took.");
static PyObject *decider_balanced(PyObject *object, PyObject *args)
{
    long long migrations, bytes;
    plb_step_done_t done = {0};
    int moved, given = 0;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "LLddp|p", &migrations, &bytes, &done.seconds_migration,
                          &done.cost, &moved, &given)) {
        return NULL;
    }
    done.migrations = migrations;
    done.bytes = bytes;
    done.moved = moved;
    done.given = given;
    return none_or(plb_decider_balanced(core_of(object), &done, &err), &err);
}

PyDoc_STRVAR(abandon_doc,
             "abandon($self, /)\n--\n\n"
             "What was asked for, or an LB step that had begun, has failed: nothing came of it.");
static PyObject *decider_abandon(PyObject *object, PyObject *unused)
{
    (void)unused;
    plb_decider_abandon(core_of(object));
    Py_RETURN_NONE;
}

/* ---- receipts ---- */

static int put(PyObject *dict, const char *name, PyObject *value)
{
    const int failed = value == NULL || PyDict_SetItemString(dict, name, value) != 0;
    Py_XDECREF(value);
    return failed;
}

static PyObject *alternatives_of(const plb_receipt_t *r, int32_t n)
{
    PyObject *out = PyTuple_New(n);
    for (int32_t i = 0; out != NULL && i < n; i++) {
        PyObject *row = Py_BuildValue("dd", r->alternatives[i].gain, r->alternatives[i].cost);
        if (row == NULL) {
            Py_CLEAR(out);
        } else {
            PyTuple_SET_ITEM(out, i, row);
        }
    }
    return out;
}

static PyObject *speeds_of(const plb_receipt_t *r, int32_t p)
{
    const int32_t n = r->speed == NULL ? 0 : p;
    PyObject *out = PyTuple_New(n);
    for (int32_t i = 0; out != NULL && i < n; i++) {
        PyObject *x = PyFloat_FromDouble(r->speed[i]);
        if (x == NULL) {
            Py_CLEAR(out);
        } else {
            PyTuple_SET_ITEM(out, i, x);
        }
    }
    return out;
}

static PyObject *receipt_of(const plb_decider_t *self, const plb_receipt_t *r)
{
    static const char *const kinds[] = {"hold", "off", "balance", "speeds"};
    PyObject *out = PyDict_New();
    int failed = out == NULL || put(out, "kind", PyUnicode_FromString(kinds[r->kind])) ||
                 put(out, "strategy", PyLong_FromLong(r->strategy)) ||
                 put(out, "moved", PyBool_FromLong(r->moved)) ||
                 put(out, "reason", PyUnicode_FromString(plb_reason_words(r->verdict.reason))) ||
                 put(out, "why", PyUnicode_FromString(r->why)) ||
                 put(out, "figures", plb_py_figures(&r->verdict)) ||
                 put(out, "alternatives", alternatives_of(r, self->opt.n)) ||
                 put(out, "speed", speeds_of(r, self->opt.n_ranks));
#define X(name) failed = failed || put(out, #name, PyFloat_FromDouble(r->placing.name));
    PLB_PLACING(X)
#undef X
#define X(name) failed = failed || put(out, #name, PyFloat_FromDouble(r->name));
    PLB_RECEIPT(X)
#undef X
#define X(name) failed = failed || put(out, #name, PyLong_FromLongLong(r->name));
    PLB_RECEIPT_COUNTS(X)
#undef X
    if (failed) {
        Py_CLEAR(out);
    }
    return out;
}

PyObject *plb_py_receipts(plb_decider_t *self)
{
    plb_decider_settle(self);
    PyObject *out = PyList_New(self->n_receipts);
    for (int64_t i = 0; out != NULL && i < self->n_receipts; i++) {
        PyObject *row = receipt_of(self, &self->receipts[i]);
        if (row == NULL) {
            Py_CLEAR(out);
        } else {
            PyList_SET_ITEM(out, i, row);
        }
    }
    return out;
}

PyDoc_STRVAR(receipts_doc, "receipts($self, /)\n--\n\n"
                           "Every receipt so far, as a dict; the last one is up to date.");
static PyObject *decider_receipts(PyObject *object, PyObject *unused)
{
    (void)unused;
    return plb_py_receipts(core_of(object));
}

static PyObject *get_balancings(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(core_of(object)->n_balancings);
}

static PyObject *get_foresees(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(plb_decider_foresees(core_of(object)));
}

static PyObject *get_weighs(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(plb_decider_weighs(core_of(object)));
}

/* Whether LB steps are switched off, what the last ones cost and saved, until when. */
static PyObject *get_books(PyObject *object, void *unused)
{
    (void)unused;
    const plb_ledger_t *l = &core_of(object)->ledger;
    return Py_BuildValue("NddL", PyBool_FromLong(l->off), l->paid, l->gained, (long long)l->until);
}

static PyObject *get_speed(PyObject *object, void *unused)
{
    (void)unused;
    const plb_decider_t *self = core_of(object);
    const npy_intp p = self->opt.n_ranks;
    if (!self->opt.learns || !self->learner.unlike) {
        Py_RETURN_NONE;
    }
    PyObject *out = PyArray_SimpleNew(1, &p, NPY_FLOAT64);
    for (npy_intp r = 0; out != NULL && r < p; r++) {
        ((double *)PyArray_DATA((PyArrayObject *)out))[r] = exp(self->learner.log_speed[r]);
    }
    return out;
}

static PyMethodDef decider_methods[] = {
    {"network", decider_network, METH_VARARGS, network_doc},
    {"expect", decider_expect, METH_VARARGS, expect_doc},
    {"observe", decider_observe, METH_VARARGS, observe_doc},
    {"next", decider_next, METH_VARARGS, next_doc},
    {"weigh", decider_weigh, METH_O, weigh_doc},
    {"look", decider_look, METH_VARARGS, look_doc},
    {"looked", decider_looked, METH_O, looked_doc},
    {"choose", decider_choose, METH_VARARGS, choose_doc},
    {"place", decider_place, METH_VARARGS, place_doc},
    {"placed", decider_placed, METH_VARARGS, placed_doc},
    {"balanced", decider_balanced, METH_VARARGS, balanced_doc},
    {"abandon", decider_abandon, METH_NOARGS, abandon_doc},
    {"receipts", decider_receipts, METH_NOARGS, receipts_doc},
    {0},
};

static PyGetSetDef decider_getset[] = {
    {"n_balancings", get_balancings, NULL, "LB steps so far.", NULL},
    {"foresees", get_foresees, NULL, "There was no LB step whose cost is known.", NULL},
    {"weighs", get_weighs, NULL, "Iterations have passed since the gain was weighed.", NULL},
    {"books", get_books, NULL, "(off, paid, saved, until) of the ledger.", NULL},
    {"speed", get_speed, NULL, "Speeds that are believed, (p,); None: ranks seem alike.", NULL},
    {0},
};

PyDoc_STRVAR(
    decider_doc,
    "Decider(*, n_ranks, candidates, trigger, selects, selection, ledger, gives_up,\n"
    "        learns, watches, network, seed)\n--\n\n"
    "When to rebalance, with which strategy, and what became of it: a state machine.\n"
    "candidates: (name or callable, name, refinement, looks_at, params) of each strategy.\n"
    "csrc/decide/decider.h says in which order it is fed.");
static PyType_Slot decider_slots[] = {
    {Py_tp_doc, (void *)decider_doc}, {Py_tp_new, decider_new},
    {Py_tp_dealloc, decider_dealloc}, {Py_tp_methods, decider_methods},
    {Py_tp_getset, decider_getset},   {0, NULL},
};

static PyType_Spec decider_spec = {
    .name = "pylb._core.Decider",
    .basicsize = sizeof(decider_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decider_slots,
};

PyDoc_STRVAR(first_cost_doc,
             "first_cost(alpha, beta, handling, objects, bytes, n_ranks, /)\n--\n\n"
             "Seconds of a first LB step for a rank all of whose objects leave.");
static PyObject *first_cost(PyObject *module, PyObject *args)
{
    (void)module;
    plb_lb_cost_t cost = {0};
    long long objects, bytes;
    int n_ranks;
    if (!PyArg_ParseTuple(args, "dddLLi", &cost.alpha, &cost.beta, &cost.handling, &objects,
                          &bytes, &n_ranks)) {
        return NULL;
    }
    return PyFloat_FromDouble(plb_first_cost(&cost, objects, bytes, n_ranks));
}

static PyMethodDef methods[] = {
    {"first_cost", first_cost, METH_VARARGS, first_cost_doc},
    {0},
};

int plb_py_add_decider(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &decider_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0 ||
                       PyModule_AddIntConstant(module, "PLACING", N_PLACING) != 0 ||
                       PyModule_AddFunctions(module, methods) != 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
