/* Python binding of csrc/decide/consensus.h: one rank in a loop without barriers.  (AtSync is the
 * end of an object's iteration.)  One call at AtSync sums the loads, contributes the statistics,
 * processes results that have arrived, and returns what to do next.  While a call must wait, other
 * threads can take the GIL, and other processes the processor core. */
#include "bind/convert.h"
#include "bind/rooms.h"

enum { N_ANSWERS = PLB_ATSYNC_FAILED + 1 };

typedef struct atsync {
    PLB_PY_HEAD plb_atsync_t core;
    plb_reduction_t alone;       /* reductions of a single rank, without MPI */
    PyObject *reduction;         /* the capsule with the reductions of all ranks, or None */
    PyObject *trigger, *decider; /* owned; `decider` is None if there is none */
    PyObject *recorder;          /* owned */
    PyObject *answers;  /* a tuple of the objects to return, indexed by plb_atsync_answer_t */
    PyObject *index_of; /* dict from key to index; NULL: before bind, or with keys=None */
    PyArrayObject *seconds, *window, *estimates; /* arrays of pylb.run.local_objects.Store */
    int64_t *slot; /* slot of each object in `core`; a rank that runs as a whole has slot[0] */
    bool idle;     /* true: since `wait` began, no object has ended or begun an iteration */
    plb_wait_t wait;
} atsync_t;

static int64_t now_ns(void)
{
    return plb_clock_ns(PLB_CLOCK_WALL);
}

/* ---- the objects ---------------------------------------------------------------------------- */

/* Set the slot of each object: its old slot, or a new one if the object joins the loop. */
static int take_slots(atsync_t *self, plb_py_call_t *c, PyObject *keys, PyObject *index_of,
                      int64_t *slot)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i);
        PyObject *index = PyLong_FromSsize_t(i);
        const int failed = index == NULL || PyDict_SetItem(index_of, key, index) != 0;
        Py_XDECREF(index);
        PyObject *known = self->index_of ? PyDict_GetItemWithError(self->index_of, key) : NULL;
        if (failed || PyErr_Occurred()) {
            return -1;
        }
        if (known != NULL) {
            slot[i] = self->slot[PyLong_AsSsize_t(known)];
            continue;
        }
        PLB_PASS(plb_atsync_join(&self->core, &slot[i], now_ns(), &c->err));
    }
    return 0;
}

/* Begin the next iteration of all waiting objects that are allowed to go on. */
static int set_off(atsync_t *self, plb_py_call_t *c)
{
    plb_atsync_answer_t answer;
    const Py_ssize_t n = self->index_of ? PyDict_GET_SIZE(self->index_of) : 0;
    if (self->core.rank.contributed == 0) {
        PLB_PASS(plb_atsync_begin(&self->core, now_ns(), &c->err));
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PLB_PASS(plb_atsync_ask(&self->core, self->slot[i], &answer, &c->err));
    }
    return PLB_OK;
}

/* Remove objects that are no longer here.  Call this after new objects have joined, because a
 * rank without objects would run ahead. */
static int drop_slots(atsync_t *self, plb_py_call_t *c, PyObject *index_of)
{
    PyObject *key, *index;
    Py_ssize_t at = 0;
    while (self->index_of != NULL && PyDict_Next(self->index_of, &at, &key, &index)) {
        const int here = PyDict_Contains(index_of, key);
        PLB_PASS(here < 0);
        if (here == 0) {
            const int64_t slot = self->slot[PyLong_AsSsize_t(index)];
            PLB_PASS(plb_atsync_leave(&self->core, slot, now_ns(), &c->err));
        }
    }
    return 0;
}

static int bind_each(atsync_t *self, plb_py_call_t *c, PyObject *keys)
{
    PyObject *index_of = PyDict_New();
    int64_t *slot = plb_malloc((size_t)PyTuple_GET_SIZE(keys), sizeof *slot);
    if (index_of == NULL || slot == NULL) {
        plb_py_no_memory();
    } else if (take_slots(self, c, keys, index_of, slot) == 0 &&
               drop_slots(self, c, index_of) == 0) {
        const bool is_first = self->index_of == NULL;
        Py_XSETREF(self->index_of, index_of);
        plb_free(self->slot);
        self->slot = slot;
        return is_first ? set_off(self, c) : 0;
    }
    Py_XDECREF(index_of);
    plb_free(slot);
    return -1;
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
           "Set the objects of this rank.  keys: a tuple of their keys; None: the rank runs as a\n"
           "whole: all its objects end an iteration together.  recorder: measures their loads.\n"
           "seconds, window, estimates: like loads, window and table in end_pass().\n"
           "background: seconds of the rank's other work in an iteration.")
{
    static const char *const names[] = {"seconds", "window", "estimates"};
    PyObject *keys, *recorder, *array[3];
    PLB_PASS(PLB_READ(c, PLB_ONE(&keys), PLB_ONE(&recorder), PLB_ONE(&array[0]),
                      PLB_ONE(&array[1]), PLB_ONE(&array[2]), PLB_ONE(&self->core.background)));
    const bool whole = keys == Py_None && PyArray_Check(array[0]);
    const Py_ssize_t n = whole ? PyArray_SIZE((PyArrayObject *)array[0]) : PyTuple_Size(keys);
    const int64_t rows = PyErr_Occurred() ? 0 : plb_py_estimate_rows(array[2], n);
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
    return plb_py_refuse(self->slot == NULL || (self->index_of != NULL) != each,
                         PyExc_RuntimeError, "%s",
                         each ? "expected a call of bind() with keys before reached()"
                              : "expected a call of bind() with keys=None before at_sync()");
}

PLB_PY_DEF(
    atsync, at_sync, "",
    "End an iteration of a rank that runs as a whole.  Returns go, balance, end or failed (see\n"
    "`answers`).  May wait: because of the lag, before an LB step, and at the loop's end.")
{
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PASS(check_bound(self, false));
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

static Py_ssize_t index_of(const atsync_t *self, PyObject *key)
{
    PyObject *index = PyDict_GetItemWithError(self->index_of, key);
    if (index == NULL && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, key);
    }
    return index ? PyLong_AsSsize_t(index) : -1;
}

PLB_PY_DEF(
    atsync, reached, "key load=None",
    "End an iteration of one object; or ask again, if the previous answer was pause. Returns\n"
    "one of `answers`: go, pause, balance, end or failed.  load: the load of the\n"
    "iteration in seconds; None: the measured time.  Never waits.")
{
    PyObject *key, *given = Py_None;
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PASS(check_bound(self, true));
    PLB_PASS(PLB_READ(c, PLB_ONE(&key), PLB_ONE(&given)));
    const Py_ssize_t i = index_of(self, key);
    const double load = i >= 0 && given != Py_None ? PyFloat_AsDouble(given) : 0.0;
    PLB_PASS(PyErr_Occurred() != NULL);
    const int64_t now = now_ns(), slot = self->slot[i];
    if (plb_atsync_runs(&self->core, slot)) {
        double *seconds = (double *)PyArray_DATA(self->seconds) + i;
        plb_py_recorder_cut(self->recorder);
        *seconds = given != Py_None ? load : *seconds;
        self->idle = false;
        PLB_PASS(plb_atsync_reached(&self->core, slot, seconds, 1, now, &c->err));
        end_pass(self, i);
    }
    PLB_PASS(progress_and_ask(self, slot, now, &answer, &c->err));
    self->idle = self->idle && answer != PLB_ATSYNC_GO;
    return give(c, self, answer);
}

PLB_PY_DEF(
    atsync, ask, "",
    "Return what this rank must do: pause, balance, end (all ranks have ended) or failed.\n"
    "Before the answer pause, waits for up to 0.2 ms, or shorter if an object has recently\n"
    "ended or begun an iteration.")
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
    "Help the other ranks with their reductions, for at most `seconds` (negative: no limit).\n"
    "Returns True as soon as all ranks have ended or are about to rebalance; else False.")
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
           "Return (m, 9) float64, a row for each iteration whose statistics have become known\n"
           "since the previous call: time, max, mean, idle, utilization, min, messages and bytes\n"
           "over all ranks; load of this rank.")
{
    PyObject *out = plb_py_copy2(self->core.row, self->core.n_rows,
                                 sizeof *self->core.row / sizeof(double), NPY_FLOAT64);
    /* the rows can now be overwritten, so a longer loop needs no more memory */
    self->core.n_rows = out == NULL ? self->core.n_rows : 0;
    return plb_py_answer(c, out);
}

PLB_PY_DEF(atsync, why, "",
           "Return (iteration, reason, tau, number of the reason) of the verdict that asked\n"
           "for the LB step that is due.  tau: ideal period in iterations, or inf.")
{
    const plb_wish_t *wish = &self->core.wish;
    const long long at =
        wish->decided ? wish->decided_at : self->core.opt.first + self->core.rank.seen - 1;
    return plb_py_answer(c, Py_BuildValue("Lsdi", at, plb_reason_words(wish->why.reason),
                                          wish->why.tau, (int)wish->why.reason));
}

static PyObject *final_of(const plb_atsync_t *core)
{
    return core->rank.final == PLB_NEVER
               ? Py_NewRef(Py_None)
               : PyLong_FromLongLong(core->opt.first + core->rank.final - 1);
}

#define ATSYNC(X)                                                                                 \
    X(atsync, over, PyBool_FromLong(plb_atsync_over(&self->core)),                                \
      "Whether nothing is under way: all ranks have ended, or are about to rebalance.")           \
    X(atsync, whole, PyBool_FromLong(self->core.whole),                                           \
      "Whether all ranks ran every iteration whose statistics are known, and the trigger "        \
      "observed each without an error.")                                                          \
    X(atsync, final, final_of(&self->core),                                                       \
      "The announced iteration of the next LB step, or None.")                                    \
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
    plb_atsync_decide(&self->core, core_decider);
    return 0;
}

/* The references that an object owns. */
static const size_t owned[] = {
    offsetof(atsync_t, reduction), offsetof(atsync_t, trigger), offsetof(atsync_t, decider),
    offsetof(atsync_t, recorder),  offsetof(atsync_t, answers), offsetof(atsync_t, index_of),
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
    "One rank in a loop of n iterations; the first one has the number `first`.  reduction:\n"
    "from pylb._mpi.Comm.reduction; None: there is one rank.  decider: the Decider that\n"
    "has this trigger and observes each iteration; or None.  answers: the objects to return\n"
    "for go, pause, balance, end and failed.  kind, lag, balance: see csrc/decide/consensus.h.",
    {Py_tp_getset, atsync_getset}, {Py_tp_traverse, atsync_traverse},
    {Py_tp_clear, atsync_clear}, )

static int constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ATSYNC_WINDOW", PLB_ATSYNC_WINDOW);
}

const plb_py_room_t plb_py_run = {NULL, {&atsync_spec}, constants};
