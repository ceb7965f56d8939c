/* Python binding of csrc/decide/consensus.h: one rank in a loop without barriers.  (AtSync is the
 * end of an object's iteration.)  One call at AtSync sums the loads, contributes the statistics,
 * processes results that have arrived, and returns what to do next.  While a call must wait, other
 * threads can take the GIL, and other processes the processor core. */
#include <string.h>

#include "bind/views.h"

typedef struct keys {
    PLB_PY_HEAD plb_keys_t core;
    PyArrayObject *array; /* the array with the keys, owned */
} keys_t;

static int keys_init(keys_t *self, plb_py_call_t *c)
{
    PyObject *keys;
    PLB_PASS(PLB_READ(c, PLB_ONE(&keys)));
    PLB_PASS(plb_py_refuse(!PyArray_Check(keys), PyExc_TypeError, "keys: expected an array"));
    const int64_t n = PyArray_SIZE((PyArrayObject *)keys);
    const int64_t *key = plb_py_in_place(keys, "keys", NPY_INT64, n);
    PLB_PASS(key == NULL);
    self->array = (PyArrayObject *)Py_NewRef(keys);
    return PLB_PY_UNLOCKED(c, plb_keys_over(&self->core, key, n, &c->err));
}

static void keys_fini(keys_t *self)
{
    plb_keys_free(&self->core);
    Py_XDECREF(self->array);
}

PLB_PY_DEF(keys, find, "!key", "Return the index of a key, or -1.")
{
    const long long wanted = PyLong_AsLongLong(c->arg);
    PLB_PASS(PyErr_Occurred() != NULL);
    return plb_py_answer(c, PyLong_FromLong(plb_keys_find(&self->core, wanted)));
}

static void find_each(const plb_keys_t *self, const int64_t *key, int64_t n, int32_t *place)
{
    for (int64_t i = 0; i < n; i++) {
        place[i] = plb_keys_find(self, key[i]);
    }
}

PLB_PY_DEF(keys, places, "keys", "Return the index of each key, or -1.")
{
    const int64_t *key;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n)));
    int32_t *place = plb_py_new(c, NPY_INT32, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, (find_each(&self->core, key, n, place), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, place));
}

static Py_ssize_t keys_length(PyObject *object)
{
    return (Py_ssize_t)((keys_t *)object)->core.n;
}

static const plb_py_def_t *const keys_methods[] = {&keys_find, &keys_places, NULL};

PLB_PY_TYPE(keys, "pylb._core.Keys", "keys",
            "Distinct keys with an index 0 ... n-1, an array of int64 that must not change.",
            {Py_sq_length, keys_length}, )

const plb_keys_t *plb_py_keys(PyObject *object)
{
    if (Py_TYPE(object)->tp_dealloc != keys_dealloc) {
        PyErr_SetString(PyExc_TypeError, "keys: expected pylb._core.Keys");
        return NULL;
    }
    return &((keys_t *)object)->core;
}

/* ---- the recorder --------------------------------------------------------------------------- */

struct loop;

typedef struct recorder {
    PLB_PY_HEAD plb_clock_t clock;
    PyArrayObject *keys;    /* [n] int64 */
    PyObject *values;       /* list of the objects */
    PyArrayObject *seconds; /* [n] float64, seconds in this iteration so far */
    struct loop *running;   /* borrowed: the loop that is measuring an object now, or NULL */
} recorder_t;

/* One `for` loop.  It owns its arrays, so they exist whatever the loop's body does. */
typedef struct loop {
    PyObject_HEAD recorder_t *recorder;
    PyArrayObject *keys;
    PyObject *values;
    PyArrayObject *seconds;
    plb_clock_t clock;
    Py_ssize_t next; /* index of the next object; the one before it is being measured */
    int64_t last;    /* ns: when the current object began */
} loop_t;

static void stop_clock(loop_t *self, int64_t now)
{
    if (self->next > 0) {
        double *seconds = PyArray_DATA(self->seconds);
        const int64_t ns = now - self->last; /* negative if the clock has stepped back */
        seconds[self->next - 1] += ns > 0 ? 1e-9 * (double)ns : 0.0;
    }
}

static void loop_end(loop_t *self)
{
    if (self->values != NULL) {
        stop_clock(self, plb_clock_ns(self->clock));
        if (self->recorder->running == self) {
            self->recorder->running = NULL;
        }
        Py_CLEAR(self->recorder);
        Py_CLEAR(self->keys);
        Py_CLEAR(self->values);
        Py_CLEAR(self->seconds);
    }
}

static PyObject *loop_next(PyObject *object)
{
    loop_t *self = (loop_t *)object;
    if (self->values == NULL) {
        return NULL;
    }
    if (self->next >= PyList_GET_SIZE(self->values)) {
        loop_end(self);
        return NULL;
    }
    const int64_t now = plb_clock_ns(self->clock);
    stop_clock(self, now);
    self->last = now;
    self->recorder->running = self;
    const Py_ssize_t i = self->next++;
    PyObject *key = PyLong_FromLongLong(((int64_t *)PyArray_DATA(self->keys))[i]);
    PyObject *pair = key ? PyTuple_Pack(2, key, PyList_GET_ITEM(self->values, i)) : NULL;
    Py_XDECREF(key);
    return pair;
}

/* Ends the measurement if the program has left the loop by break or an exception. */
static void loop_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    loop_end((loop_t *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

static int loop_traverse(PyObject *object, visitproc visit, void *arg)
{
    const loop_t *self = (loop_t *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->values);
    Py_VISIT(self->recorder);
    return 0;
}

static int loop_clear(PyObject *object)
{
    loop_end((loop_t *)object);
    return 0;
}

static PyType_Slot loop_slots[] = {
    {Py_tp_iter, PyObject_SelfIter}, {Py_tp_iternext, loop_next}, {Py_tp_dealloc, loop_dealloc},
    {Py_tp_traverse, loop_traverse}, {Py_tp_clear, loop_clear},   {0, NULL},
};

static PyType_Spec loop_spec = {
    .name = "pylb._core.RecorderLoop",
    .basicsize = sizeof(loop_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = loop_slots,
};

static PyTypeObject *loop_type; /* a single type for the whole process */

static int recorder_init(recorder_t *self, plb_py_call_t *c)
{
    PyObject *keys, *values, *seconds;
    const char *clock;
    PLB_PASS(PLB_READ(c, PLB_ONE(&keys), PLB_ONE(&values), PLB_ONE(&seconds), PLB_ONE(&clock)));
    PLB_PASS(plb_py_clock(clock, &self->clock));
    PLB_PASS(plb_py_in_place(keys, "keys", NPY_INT64, PyList_GET_SIZE(values)) == NULL);
    PLB_PASS(plb_py_in_place(seconds, "seconds", NPY_FLOAT64, PyList_GET_SIZE(values)) == NULL);
    self->keys = (PyArrayObject *)Py_NewRef(keys);
    self->values = Py_NewRef(values);
    self->seconds = (PyArrayObject *)Py_NewRef(seconds);
    return 0;
}

static int recorder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((recorder_t *)object)->values);
    return 0;
}

static int recorder_clear(PyObject *object)
{
    recorder_t *self = (recorder_t *)object;
    Py_CLEAR(self->keys);
    Py_CLEAR(self->values);
    Py_CLEAR(self->seconds);
    return 0;
}

static void recorder_fini(recorder_t *self)
{
    recorder_clear((PyObject *)self);
}

static PyObject *recorder_iter(PyObject *object)
{
    recorder_t *self = (recorder_t *)object;
    loop_t *loop = PyObject_GC_New(loop_t, loop_type);
    if (loop != NULL) {
        loop->recorder = (recorder_t *)Py_NewRef(object);
        loop->keys = (PyArrayObject *)Py_NewRef((PyObject *)self->keys);
        loop->values = Py_NewRef(self->values);
        loop->seconds = (PyArrayObject *)Py_NewRef((PyObject *)self->seconds);
        loop->clock = self->clock;
        loop->next = 0;
        loop->last = 0;
        PyObject_GC_Track((PyObject *)loop);
    }
    return (PyObject *)loop;
}

static PyMethodDef recorder_methods[] = {{0}};

PLB_PY_TYPE(recorder, "pylb._core.Recorder", "keys values:L seconds clock",
            "Iterates over (keys[i], values[i]), and adds the time of a body to seconds[i].",
            {Py_tp_traverse, recorder_traverse}, {Py_tp_clear, recorder_clear},
            {Py_tp_iter, recorder_iter}, )

/* Return how many rows a table of estimates of n objects has: PLB_ESTIMATE_HERE if its size fits,
 * else PLB_ESTIMATE_ROWS; then the caller must check the size. */
static int64_t plb_py_estimate_rows(PyObject *table, int64_t n)
{
    return PyArray_Check(table) && PyArray_SIZE((PyArrayObject *)table) == PLB_ESTIMATE_HERE * n
               ? PLB_ESTIMATE_HERE
               : PLB_ESTIMATE_ROWS;
}

PLB_PY_DEF(fn, end_pass, "loads table window",
           "Update the table of estimates with loads[n], the loads of one iteration; then add "
           "loads to window[n], and set loads to zero.")
{
    PyObject *object[3];
    PLB_PASS(PLB_READ(c, PLB_ONE(&object[0]), PLB_ONE(&object[1]), PLB_ONE(&object[2])));
    const int64_t n =
        PyArray_Check(object[0]) ? PyArray_SIZE((PyArrayObject *)object[0]) : PLB_ESTIMATE_ROWS;
    double *loads = plb_py_in_place(object[0], "loads", NPY_FLOAT64, n);
    const int64_t rows = plb_py_estimate_rows(object[1], n);
    double *table = plb_py_in_place(object[1], "table", NPY_FLOAT64, rows * n);
    double *window = plb_py_in_place(object[2], "window", NPY_FLOAT64, n);
    PLB_PASS(loads == NULL || table == NULL || window == NULL);
    (rows == PLB_ESTIMATE_ROWS ? plb_estimate_update : plb_estimate_mean)(loads, n, table);
    for (int64_t i = 0; i < n; i++) {
        window[i] += loads[i];
        loads[i] = 0.0;
    }
    return PLB_OK;
}

enum { N_ANSWERS = PLB_ATSYNC_FAILED + 1 };

typedef struct atsync {
    PLB_PY_HEAD plb_atsync_t core;
    plb_reduction_t alone;       /* reductions of a single rank, without MPI */
    PyObject *reduction;         /* the capsule with the reductions of all ranks, or None */
    PyObject *trigger, *decider; /* owned; `decider` is None if there is none */
    PyObject *recorder;          /* owned */
    PyObject *answers; /* a tuple of the objects to return, indexed by plb_atsync_answer_t */
    PyObject *keys;    /* pylb._core.Keys; NULL: before bind, or with keys=None */
    PyArrayObject *seconds, *window, *estimates; /* arrays of `LocalObjects` in Python */
    int64_t *slot; /* slot of each object in `core`; a rank that runs as a whole has slot[0] */
    bool idle;     /* true: since `wait` began, no object has ended or begun an iteration */
    plb_wait_t wait;
} atsync_t;

static int64_t now_ns(void)
{
    return plb_clock_ns(PLB_CLOCK_WALL);
}

/* ---- the objects ---------------------------------------------------------------------------- */

/* Begin the next iteration of all waiting objects that are allowed to go on. */
static int set_off(atsync_t *self, plb_py_call_t *c)
{
    plb_atsync_answer_t answer;
    const int64_t n = self->keys != NULL ? plb_py_keys(self->keys)->n : 0;
    if (self->core.rank.contributed == 0) {
        PLB_PASS(plb_atsync_begin(&self->core, now_ns(), &c->err));
    }
    for (int64_t i = 0; i < n; i++) {
        PLB_PASS(plb_atsync_ask(&self->core, self->slot[i], &answer, &c->err));
    }
    return PLB_OK;
}

/* Set the slot of each object: its old slot, or a new one if the object joins the loop.  Objects
 * that are no longer here leave only then, because a rank without objects would run ahead. */
static int bind_each(atsync_t *self, plb_py_call_t *c, PyObject *keys)
{
    static const plb_keys_t none = {0};
    const plb_keys_t *here = plb_py_keys(keys);
    const plb_keys_t *before = self->keys != NULL ? plb_py_keys(self->keys) : &none;
    const bool is_first = self->keys == NULL;
    plb_err_t *err = &c->err;
    int64_t *slot = NULL;
    int ret = PLB_OK;
    PLB_NEW(slot, here->n);
    for (int64_t i = 0; i < here->n; i++) {
        const int32_t k = plb_keys_find(before, here->key[i]);
        if (k >= 0) {
            slot[i] = self->slot[k];
        } else {
            PLB_TRY(plb_atsync_join(&self->core, &slot[i], now_ns(), err));
        }
    }
    for (int64_t k = 0; k < before->n; k++) {
        if (plb_keys_find(here, before->key[k]) < 0) {
            PLB_TRY(plb_atsync_leave(&self->core, self->slot[k], now_ns(), err));
        }
    }
    Py_XSETREF(self->keys, Py_NewRef(keys));
    plb_free(self->slot);
    self->slot = slot;
    return is_first ? set_off(self, c) : PLB_OK;
out:
    plb_free(slot);
    return ret;
}

/* Join the loop as a whole, and begin the first iteration; later calls do nothing. */
static int bind_whole(atsync_t *self, plb_py_call_t *c)
{
    plb_err_t *err = &c->err;
    plb_atsync_answer_t answer;
    if (self->slot != NULL) {
        return 0;
    }
    PLB_PASS_NEW(self->slot, 1);
    PLB_PASS(plb_atsync_join(&self->core, &self->slot[0], now_ns(), err));
    return plb_atsync_ask(&self->core, self->slot[0], &answer, err);
}

PLB_PY_DEF(atsync, bind, "keys recorder seconds window estimates background",
           "Set the objects of this rank.")
{
    static const char *const names[] = {"seconds", "window", "estimates"};
    PyObject *keys, *recorder, *array[3];
    PLB_PASS(PLB_READ(c, PLB_ONE(&keys), PLB_ONE(&recorder), PLB_ONE(&array[0]),
                      PLB_ONE(&array[1]), PLB_ONE(&array[2]), PLB_ONE(&self->core.background)));
    const bool whole = keys == Py_None && PyArray_Check(array[0]);
    const plb_keys_t *each = whole ? NULL : plb_py_keys(keys);
    const int64_t n = whole ? PyArray_SIZE((PyArrayObject *)array[0]) : each != NULL ? each->n : 0;
    const int64_t rows = plb_py_estimate_rows(array[2], n);
    for (int i = 0; i < 3 && !PyErr_Occurred(); i++) {
        plb_py_in_place(array[i], names[i], NPY_FLOAT64, i < 2 ? n : rows * n);
    }
    PLB_PASS(PyErr_Occurred() != NULL);
    PLB_PASS(whole ? bind_whole(self, c) : bind_each(self, c, keys));
    Py_XSETREF(self->recorder, Py_NewRef(recorder));
    Py_XSETREF(self->seconds, (PyArrayObject *)Py_NewRef(array[0]));
    Py_XSETREF(self->window, (PyArrayObject *)Py_NewRef(array[1]));
    Py_XSETREF(self->estimates, (PyArrayObject *)Py_NewRef(array[2]));
    return PLB_OK;
}

/* Add the load of object i (-1: the loads of all objects) in this iteration to the estimates and
 * to the window, and set the load to zero. */
static void end_pass(atsync_t *self, Py_ssize_t i)
{
    const Py_ssize_t n = PyArray_SIZE(self->seconds), end = i < 0 ? n : i + 1;
    double *seconds = PyArray_DATA(self->seconds), *window = PyArray_DATA(self->window);
    double *estimates = PyArray_DATA(self->estimates);
    const int64_t rows = n > 0 ? PyArray_SIZE(self->estimates) / n : 0;
    for (Py_ssize_t k = i < 0 ? 0 : i; k < end; k++) {
        plb_estimate_one(seconds[k], k, n, rows, estimates);
        window[k] += seconds[k];
        seconds[k] = 0.0;
    }
}

/* ---- at AtSync ------------------------------------------------------------------------------ */

static int give(plb_py_call_t *c, const atsync_t *self, plb_atsync_answer_t answer)
{
    return plb_py_answer(c, Py_NewRef(PyTuple_GET_ITEM(self->answers, answer)));
}

static int progress_and_ask(atsync_t *self, int64_t slot, int64_t now, plb_atsync_answer_t *answer,
                            plb_err_t *err)
{
    PLB_PASS(plb_atsync_progress(&self->core, now, err));
    return plb_atsync_ask(&self->core, slot, answer, err);
}

/* At the end of the loop, a rank waits until all ranks have reached it. */
static bool waits(const atsync_t *self, plb_atsync_answer_t answer)
{
    return answer == PLB_ATSYNC_PAUSE ||
           (answer == PLB_ATSYNC_END && !plb_atsync_over(&self->core));
}

static int wait_for_answer(atsync_t *self, int64_t slot, plb_atsync_answer_t *answer,
                           PyThreadState **state, plb_err_t *err)
{
    plb_wait_t wait;
    const double before = self->core.waited;
    plb_wait_begin(&wait, plb_py_tick, state);
    do {
        PLB_PASS(plb_wait_pause(&wait));
        const int64_t now = now_ns();
        self->core.waited = before + 1e-9 * (double)(now - wait.start);
        PLB_PASS(progress_and_ask(self, slot, now, answer, err));
    } while (waits(self, *answer));
    return PLB_OK;
}

static int check_bound(const atsync_t *self, bool each)
{
    return plb_py_refuse(self->slot == NULL || (self->keys != NULL) != each, PyExc_RuntimeError,
                         "%s",
                         each ? "expected a call of bind() with keys before reached()"
                              : "expected a call of bind() with keys=None before at_sync()");
}

PLB_PY_DEF(atsync, at_sync, "arguments=0 phases:@?=None",
           "End an iteration of a rank that runs as a whole.")
{
    const double *phases = NULL;
    int64_t d = -1;
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PASS(check_bound(self, false));
    PLB_PASS(PLB_READ(c, PLB_ONE(&self->core.arguments), PLB_MANY(&phases, &d)));
    if (phases != NULL) {
        PLB_PASS(plb_py_refuse(d > PLB_MOST_PHASES, PyExc_ValueError,
                               "%lld phases: expected at most %d", (long long)d, PLB_MOST_PHASES));
        self->core.n_phases = d;
        memcpy(self->core.phase, phases, (size_t)d * sizeof *phases);
    }
    const int64_t now = now_ns(), slot = self->slot[0];
    if (plb_atsync_runs(&self->core, slot)) {
        PLB_PASS(plb_atsync_reached(&self->core, slot, PyArray_DATA(self->seconds),
                                    PyArray_SIZE(self->seconds), now, &c->err));
        end_pass(self, -1);
    }
    PLB_PASS(progress_and_ask(self, slot, now, &answer, &c->err));
    if (waits(self, answer)) {
        PLB_PASS(PLB_PY_UNLOCKED(c, wait_for_answer(self, slot, &answer, &c->state, &c->err)));
    }
    return give(c, self, answer);
}

PLB_PY_DEF(atsync, reached, "key load=None",
           "End an iteration of one object; or ask again, if the previous answer was pause.")
{
    PyObject *key, *given = Py_None;
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PASS(check_bound(self, true));
    PLB_PASS(PLB_READ(c, PLB_ONE(&key), PLB_ONE(&given)));
    const long long wanted = PyLong_AsLongLong(key);
    const int32_t i = PyErr_Occurred() ? -1 : plb_keys_find(plb_py_keys(self->keys), wanted);
    if (i < 0 && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, key);
    }
    const double load = i >= 0 && given != Py_None ? PyFloat_AsDouble(given) : 0.0;
    PLB_PASS(PyErr_Occurred() != NULL);
    const int64_t now = now_ns(), slot = self->slot[i];
    if (plb_atsync_runs(&self->core, slot)) {
        double *seconds = (double *)PyArray_DATA(self->seconds) + i;
        /* end the interval that a loop over a pylb._core.Recorder is measuring now */
        const bool records = Py_TYPE(self->recorder)->tp_iter == recorder_iter;
        loop_t *loop = records ? ((recorder_t *)self->recorder)->running : NULL;
        if (loop != NULL) {
            const int64_t cut = plb_clock_ns(loop->clock);
            stop_clock(loop, cut);
            loop->last = cut;
        }
        *seconds = given != Py_None ? load : *seconds;
        self->idle = false;
        PLB_PASS(plb_atsync_reached(&self->core, slot, seconds, 1, now, &c->err));
        end_pass(self, i);
    }
    PLB_PASS(progress_and_ask(self, slot, now, &answer, &c->err));
    self->idle = self->idle && answer != PLB_ATSYNC_GO;
    return give(c, self, answer);
}

PLB_PY_DEF(atsync, ask, "",
           "Return what this rank must do: pause, balance, end (all ranks have ended) or failed.")
{
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PASS(progress_and_ask(self, -1, now_ns(), &answer, &c->err));
    if (answer != PLB_ATSYNC_PAUSE) {
        return give(c, self, answer);
    }
    if (!self->idle) {
        self->idle = true;
        plb_wait_begin(&self->wait, NULL, NULL);
    }
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_wait_pause(&self->wait)));
    return give(c, self, answer);
}

static int serve(atsync_t *self, double seconds, PyThreadState **state, plb_err_t *err)
{
    plb_wait_t wait;
    plb_wait_begin(&wait, plb_py_tick, state);
    for (;;) {
        const int64_t now = now_ns();
        int ret = plb_atsync_progress(&self->core, now, err);
        if (ret != PLB_OK || plb_atsync_over(&self->core) ||
            (seconds >= 0.0 && 1e-9 * (double)(now - wait.start) > seconds) ||
            (ret = plb_wait_pause(&wait)) != PLB_OK) {
            return ret;
        }
    }
}

PLB_PY_DEF(
    atsync, serve, "seconds",
    "Help the other ranks with their reductions, for at most `seconds` (negative: no limit).")
{
    double seconds;
    PLB_PASS(PLB_READ(c, PLB_ONE(&seconds)));
    PLB_PASS(PLB_PY_UNLOCKED(c, serve(self, seconds, &c->state, &c->err)));
    return plb_py_answer(c, PyBool_FromLong(plb_atsync_over(&self->core)));
}

PLB_PY_DEF(atsync, balanced, "", "Continue after an LB step and `bind`: all objects run again.")
{
    PLB_PASS(plb_atsync_balanced(&self->core, now_ns(), &c->err));
    return set_off(self, c);
}

PLB_PY_DEF(atsync, give_up, "failed",
           "Leave the loop; then call `serve`.  failed: whether all other ranks must leave, too.")
{
    bool failed;
    PLB_PASS(PLB_READ(c, PLB_ONE(&failed)));
    return plb_atsync_give_up(&self->core, failed, now_ns(), &c->err);
}

PLB_PY_DEF(atsync, rows, "",
           "Return (m, 25) float64, a row for each iteration whose statistics have become known\n"
           "since the previous call: time, max, mean, idle, utilization, min, messages and bytes\n"
           "over all ranks; load of this rank; with d phases, the d largest loads of a rank and\n"
           "the d mean loads.")
{
    PyObject *out = plb_py_copy2(self->core.row, self->core.n_rows,
                                 sizeof *self->core.row / sizeof(double), NPY_FLOAT64);
    /* the rows can now be overwritten, so a longer loop needs no more memory */
    self->core.n_rows = out == NULL ? self->core.n_rows : 0;
    return plb_py_answer(c, out);
}

PLB_PY_DEF(atsync, why, "",
           "Return (iteration, reason, tau, number of the reason) of the verdict that asked for "
           "the LB step that is due.")
{
    const plb_wish_t *wish = &self->core.wish;
    const long long at =
        wish->decided ? wish->decided_at : self->core.opt.first + self->core.rank.seen - 1;
    return plb_py_answer(c, Py_BuildValue("Lsdi", at, plb_reason_words[wish->why.reason],
                                          wish->why.tau, (int)wish->why.reason));
}

#define ATSYNC(X)                                                                                 \
    X(atsync, whole, PyBool_FromLong(self->core.whole),                                           \
      "Whether all ranks ran every iteration whose statistics are known, and the trigger "        \
      "observed each without an error.")                                                          \
    X(atsync, contributed,                                                                        \
      PyLong_FromLongLong(self->core.opt.first + self->core.rank.contributed),                    \
      "The current iteration of this rank.")
PLB_PY_PROPERTIES(atsync, ATSYNC)

static int atsync_init(atsync_t *self, plb_py_call_t *c)
{
    PyObject *reduction, *trigger, *decider, *answers;
    plb_atsync_options_t opt;
    PLB_PASS(PLB_READ(c, PLB_ONE(&reduction), PLB_ONE(&trigger), PLB_ONE(&decider),
                      PLB_ONE(&answers), PLB_ONE(&opt.kind), PLB_ONE(&opt.first), PLB_ONE(&opt.n),
                      PLB_ONE(&opt.lag), PLB_ONE(&opt.balance)));
    PLB_PASS(plb_py_refuse(PyTuple_GET_SIZE(answers) != N_ANSWERS, PyExc_ValueError,
                           "answers: expected %d objects", N_ANSWERS));
    plb_trigger_t *core_trigger = plb_py_trigger(trigger);
    plb_decider_t *core_decider =
        core_trigger != NULL && decider != Py_None ? plb_py_decider(decider) : NULL;
    PLB_PASS(PyErr_Occurred() != NULL);
    self->reduction = Py_NewRef(reduction);
    self->trigger = Py_NewRef(trigger);
    self->decider = Py_NewRef(decider);
    self->answers = Py_NewRef(answers);
    const int depth = (opt.lag > 0 ? opt.lag : PLB_ATSYNC_WINDOW) + 2;
    const plb_reduction_t *net = plb_py_reduction(c, reduction, &self->alone, depth);
    PLB_PASS(net == NULL);
    PLB_PASS(plb_atsync_init(&self->core, &opt, net, core_trigger, now_ns(), &c->err));
    self->core.decider = core_decider;
    return 0;
}

/* The references that an object owns. */
static const size_t owned[] = {
    offsetof(atsync_t, reduction), offsetof(atsync_t, trigger), offsetof(atsync_t, decider),
    offsetof(atsync_t, recorder),  offsetof(atsync_t, answers), offsetof(atsync_t, keys),
    offsetof(atsync_t, seconds),   offsetof(atsync_t, window),  offsetof(atsync_t, estimates)};

static PyObject **reference(atsync_t *self, size_t i)
{
    return (PyObject **)(void *)((char *)self + owned[i]);
}

static int atsync_traverse(PyObject *object, visitproc visit, void *arg)
{
    atsync_t *self = (atsync_t *)object;
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        Py_VISIT(*reference(self, i));
    }
    return 0;
}

/* Only the recorder refers to objects of the program, so this breaks every reference cycle. */
static int atsync_clear(PyObject *object)
{
    Py_CLEAR(((atsync_t *)object)->recorder);
    return 0;
}

static void atsync_fini(atsync_t *self)
{
    plb_atsync_free(&self->core);
    plb_reduction_alone_free(&self->alone);
    plb_free(self->slot);
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        Py_CLEAR(*reference(self, i));
    }
}

static const plb_py_def_t *const atsync_methods[] = {
    &atsync_bind,     &atsync_at_sync, &atsync_reached, &atsync_ask, &atsync_serve,
    &atsync_balanced, &atsync_give_up, &atsync_rows,    &atsync_why, NULL};

PLB_PY_TYPE(
    atsync, "pylb._core.AtSync", "reduction trigger decider answers:T kind first n lag balance",
    "One rank in a loop of n iterations (csrc/decide/consensus.h).  answers: the objects to\n"
    "return for go, pause, balance, end and failed.",
    {Py_tp_getset, atsync_getset}, {Py_tp_traverse, atsync_traverse},
    {Py_tp_clear, atsync_clear}, )

static const plb_py_def_t *const methods[] = {&fn_end_pass, NULL};

static int more(PyObject *module)
{
    loop_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &loop_spec, NULL);
    return loop_type == NULL ||
           PyModule_AddIntConstant(module, "ATSYNC_WINDOW", PLB_ATSYNC_WINDOW);
}

const plb_py_room_t plb_py_run = {methods, {&keys_spec, &recorder_spec, &atsync_spec}, more};
