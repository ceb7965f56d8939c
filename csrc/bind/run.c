/* Python binding of csrc/decide/atsync.h: one rank in a loop without barriers.  (AtSync is the end
 * of an object's iteration.)  One call at AtSync sums the loads, contributes the statistics,
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
        PLB_PY_PASS(plb_py_check(c, plb_atsync_join(&self->core, &slot[i], now_ns(), &c->err)));
    }
    return 0;
}

/* Begin the next iteration of all waiting objects that are allowed to go on. */
static int set_off(atsync_t *self, plb_py_call_t *c)
{
    plb_atsync_answer_t answer;
    const Py_ssize_t n = self->index_of ? PyDict_GET_SIZE(self->index_of) : 0;
    int ret = PLB_OK;
    if (self->core.rank.contributed == 0) {
        ret = plb_atsync_begin(&self->core, now_ns(), &c->err);
    }
    for (Py_ssize_t i = 0; i < n && ret == PLB_OK; i++) {
        ret = plb_atsync_ask(&self->core, self->slot[i], &answer, &c->err);
    }
    return plb_py_check(c, ret);
}

/* Remove objects that are no longer here.  Call this after new objects have joined, because a
 * rank without objects would run ahead. */
static int drop_slots(atsync_t *self, plb_py_call_t *c, PyObject *index_of)
{
    PyObject *key, *index;
    Py_ssize_t at = 0;
    while (self->index_of != NULL && PyDict_Next(self->index_of, &at, &key, &index)) {
        const int here = PyDict_Contains(index_of, key);
        PLB_PY_PASS(here < 0);
        if (here == 0) {
            const int64_t slot = self->slot[PyLong_AsSsize_t(index)];
            PLB_PY_PASS(plb_py_check(c, plb_atsync_leave(&self->core, slot, now_ns(), &c->err)));
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
    int ret = PLB_OK;
    plb_atsync_answer_t answer;
    if (self->slot != NULL) {
        return 0;
    }
    PLB_NEW(self->slot, 1);
    if ((ret = plb_atsync_join(&self->core, &self->slot[0], now_ns(), err)) == PLB_OK) {
        ret = plb_atsync_ask(&self->core, self->slot[0], &answer, err);
    }
out:
    return plb_py_check(c, ret);
}

PLB_PY_METHOD(
    atsync, bind, "keys:O recorder:O seconds:O window:O estimates:O background:d",
    "Set the objects of this rank.  keys: a tuple of their keys; None: the rank runs as a\n"
    "whole: all its objects end an iteration together.  recorder: measures their loads.\n"
    "seconds, window, estimates: like loads, window and table in end_pass().\n"
    "background: seconds of the rank's other work in an iteration.")
{
    static const char *const names[] = {"seconds", "window", "estimates"};
    PyObject *keys, *recorder, *array[3];
    PLB_PY_TRY(plb_py_parse(c, &keys, &recorder, &array[0], &array[1], &array[2],
                            &self->core.background));
    const bool whole = keys == Py_None && PyArray_Check(array[0]);
    const Py_ssize_t n = whole ? PyArray_SIZE((PyArrayObject *)array[0]) : PyTuple_Size(keys);
    const int64_t rows = PyErr_Occurred() ? 0 : plb_py_estimate_rows(array[2], n);
    for (int i = 0; i < 3 && !PyErr_Occurred(); i++) {
        plb_py_in_place(array[i], names[i], NPY_FLOAT64, i < 2 ? n : rows * n);
    }
    PLB_PY_TRY(PyErr_Occurred());
    PLB_PY_TRY(whole ? bind_whole(self, c) : bind_each(self, c, keys));
    Py_XSETREF(self->recorder, Py_NewRef(recorder));
    Py_XSETREF(self->seconds, (PyArrayObject *)Py_NewRef(array[0]));
    Py_XSETREF(self->window, (PyArrayObject *)Py_NewRef(array[1]));
    Py_XSETREF(self->estimates, (PyArrayObject *)Py_NewRef(array[2]));
    Py_RETURN_NONE;
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

static PyObject *answer_or_raise(const atsync_t *self, int ret, plb_atsync_answer_t answer,
                                 const plb_err_t *err)
{
    return ret == PLB_OK ? Py_NewRef(PyTuple_GET_ITEM(self->answers, answer))
                         : plb_py_raise(ret, err);
}

static int progress_and_ask(atsync_t *self, int64_t slot, int64_t now, plb_atsync_answer_t *answer,
                            plb_err_t *err)
{
    const int ret = plb_atsync_progress(&self->core, now, err);
    return ret == PLB_OK ? plb_atsync_ask(&self->core, slot, answer, err) : ret;
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
    int ret = PLB_OK;
    plb_wait_t wait;
    int64_t now;
    plb_wait_begin(&wait, plb_py_tick, state);
    do {
        ret = plb_wait_pause(&wait);
        now = now_ns();
    } while (ret == PLB_OK && (ret = progress_and_ask(self, slot, now, answer, err)) == PLB_OK &&
             waits(self, *answer));
    self->core.waited += 1e-9 * (double)(now - wait.start);
    return ret;
}

static int check_bound(const atsync_t *self, bool each)
{
    PLB_PY_REFUSE_IF(self->slot == NULL || (self->index_of != NULL) != each, PyExc_RuntimeError,
                     "%s",
                     each ? "expected a call of bind() with keys before reached()"
                          : "expected a call of bind() with keys=None before at_sync()");
    return 0;
}

PLB_PY_METHOD0(
    atsync, at_sync,
    "End an iteration of a rank that runs as a whole.  Returns go, balance, end or failed (see\n"
    "`answers`).  May wait: because of the lag, before an LB step, and at the loop's end.")
{
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PY_TRY(check_bound(self, false));
    const int64_t now = now_ns(), slot = self->slot[0];
    int ret = PLB_OK;
    if (plb_atsync_runs(&self->core, slot)) {
        ret = plb_atsync_reached(&self->core, slot, PyArray_DATA(self->seconds),
                                 PyArray_SIZE(self->seconds), now, &c->err);
        if (ret == PLB_OK) {
            end_pass(self, -1);
        }
    }
    PLB_THEN(progress_and_ask(self, slot, now, &answer, &c->err));
    if (ret == PLB_OK && waits(self, answer)) {
        ret = PLB_PY_UNLOCKED(c, wait_for_answer(self, slot, &answer, &c->state, &c->err));
    }
    return answer_or_raise(self, ret, answer, &c->err);
}

static Py_ssize_t index_of(const atsync_t *self, PyObject *key)
{
    PyObject *index = PyDict_GetItemWithError(self->index_of, key);
    if (index == NULL && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, key);
    }
    return index ? PyLong_AsSsize_t(index) : -1;
}

enum { atsync_reached_how = METH_FASTCALL };
PyDoc_STRVAR(
    atsync_reached_doc,
    "reached($self, key, load=None, /)\n--\n\n"
    "End an iteration of one object; or ask again, if the previous answer was pause. Returns\n"
    "one of `answers`: go, pause, balance, end or failed.  load: the load of the\n"
    "iteration in seconds; None: the measured time.  Never waits.");
static PyObject *atsync_reached(PyObject *object, PyObject *const *args, Py_ssize_t n_args)
{
    atsync_t *self = (atsync_t *)object;
    plb_py_call_t call, *c = &call;
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    PLB_PY_TRY(plb_py_begin(c, object, "reached"));
    PLB_PY_TRY(check_bound(self, true));
    PLB_PY_RAISE_IF(n_args < 1 || n_args > 2, PyExc_TypeError,
                    "expected a key and a load, not %zd arguments", n_args);
    const Py_ssize_t i = index_of(self, args[0]);
    const bool given = n_args > 1 && args[1] != Py_None;
    const double load = i >= 0 && given ? PyFloat_AsDouble(args[1]) : 0.0;
    PLB_PY_TRY(PyErr_Occurred());
    int ret = PLB_OK;
    const int64_t now = now_ns(), slot = self->slot[i];
    if (plb_atsync_runs(&self->core, slot)) {
        double *seconds = (double *)PyArray_DATA(self->seconds) + i;
        plb_py_recorder_cut(self->recorder);
        *seconds = given ? load : *seconds;
        ret = plb_atsync_reached(&self->core, slot, seconds, 1, now, &c->err);
        if (ret == PLB_OK) {
            end_pass(self, i);
        }
        self->idle = false;
    }
    PLB_THEN(progress_and_ask(self, slot, now, &answer, &c->err));
    self->idle = self->idle && answer != PLB_ATSYNC_GO;
    return answer_or_raise(self, ret, answer, &c->err);
}

PLB_PY_METHOD0(
    atsync, ask,
    "Return what this rank must do: pause, balance, end (all ranks have ended) or failed.\n"
    "Before the answer pause, waits for up to 0.2 ms, or shorter if an object has recently\n"
    "ended or begun an iteration.")
{
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    int ret = progress_and_ask(self, -1, now_ns(), &answer, &c->err);
    if (ret != PLB_OK || answer != PLB_ATSYNC_PAUSE) {
        return answer_or_raise(self, ret, answer, &c->err);
    }
    if (!self->idle) {
        self->idle = true;
        plb_wait_begin(&self->wait, NULL, NULL);
    }
    ret = PLB_PY_UNLOCKED(c, plb_wait_pause(&self->wait));
    return answer_or_raise(self, ret, answer, &c->err);
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

PLB_PY_METHOD(
    atsync, serve, "seconds:d",
    "Help the other ranks with their reductions, for at most `seconds` (negative: no limit).\n"
    "Returns True as soon as all ranks have ended or are about to rebalance; else False.")
{
    double seconds;
    PLB_PY_TRY(plb_py_parse(c, &seconds));
    PLB_PY_RUN(c, serve(self, seconds, &c->state, &c->err));
    return PyBool_FromLong(plb_atsync_over(&self->core));
}

PLB_PY_METHOD0(atsync, balanced, "Continue after an LB step and `bind`: all objects run again.")
{
    PLB_PY_TRY(plb_py_check(c, plb_atsync_balanced(&self->core, now_ns(), &c->err)));
    PLB_PY_TRY(set_off(self, c));
    Py_RETURN_NONE;
}

PLB_PY_METHOD(
    atsync, give_up, "failed:p",
    "Leave the loop; then call `serve`.  failed: whether all other ranks must leave, too.")
{
    bool failed;
    PLB_PY_TRY(plb_py_parse(c, &failed));
    return PLB_PY_NONE(c, plb_atsync_give_up(&self->core, failed, now_ns(), &c->err));
}

PLB_PY_METHOD0(
    atsync, rows,
    "Return (m, 9) float64, a row for each iteration whose statistics have become known\n"
    "since the previous call: time, max, mean, idle, utilization, min, messages and bytes\n"
    "over all ranks; load of this rank.")
{
    PyObject *out = plb_py_copy2(self->core.row, self->core.n_rows,
                                 sizeof *self->core.row / sizeof(double), NPY_FLOAT64);
    /* the rows can now be overwritten, so a longer loop needs no more memory */
    self->core.n_rows = out == NULL ? self->core.n_rows : 0;
    return out;
}

PLB_PY_METHOD0(atsync, why,
               "Return (iteration, reason, tau, number of the reason) of the verdict that asked\n"
               "for the LB step that is due.  tau: ideal period in iterations, or inf.")
{
    const plb_wish_t *wish = &self->core.wish;
    const long long at =
        wish->decided ? wish->decided_at : self->core.opt.first + self->core.rank.seen - 1;
    return Py_BuildValue("Lsdi", at, plb_reason_words(wish->why.reason), wish->why.tau,
                         (int)wish->why.reason);
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
    PLB_PY_PASS(plb_py_parse(c, &reduction, &trigger, &decider, &answers, &opt.kind, &opt.first,
                             &opt.n, &opt.lag, &opt.balance));
    PLB_PY_REFUSE_IF(PyTuple_GET_SIZE(answers) != N_ANSWERS, PyExc_ValueError,
                     "answers: expected %d objects", N_ANSWERS);
    plb_trigger_t *core_trigger = plb_py_trigger(trigger);
    plb_decider_t *core_decider =
        core_trigger != NULL && decider != Py_None ? plb_py_decider(decider) : NULL;
    PLB_PY_PASS(PyErr_Occurred());
    self->reduction = Py_NewRef(reduction);
    self->trigger = Py_NewRef(trigger);
    self->decider = Py_NewRef(decider);
    self->answers = Py_NewRef(answers);
    const int depth = (opt.lag > 0 ? opt.lag : PLB_ATSYNC_WINDOW) + 2;
    const plb_reduction_t *net = plb_py_reduction(c, reduction, &self->alone, depth);
    PLB_PY_PASS(net == NULL);
    PLB_PY_PASS(
        plb_py_check(c, plb_atsync_init(&self->core, &opt, net, core_trigger, now_ns(), &c->err)));
    plb_atsync_decide(&self->core, core_decider);
    return 0;
}

static int atsync_traverse(PyObject *object, visitproc visit, void *arg)
{
    atsync_t *self = (atsync_t *)object;
    return PLB_PY_VISIT(object, visit, arg, self->reduction, self->trigger, self->decider,
                        self->recorder, self->answers, self->index_of, self->seconds, self->window,
                        self->estimates);
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
    PLB_PY_DROP(self->reduction, self->trigger, self->decider, self->recorder, self->answers,
                self->index_of, self->seconds, self->window, self->estimates);
}

static PyMethodDef atsync_methods[] =
    PLB_PY_METHODS(atsync, bind, at_sync, reached, ask, serve, balanced, give_up, rows, why);

PLB_PY_TYPE(
    atsync, "pylb._core.AtSync",
    "reduction:O trigger:O decider:O answers:T kind:l first:l n:l lag:i balance:p",
    "One rank in a loop of n iterations; the first one has the number `first`.  reduction:\n"
    "from pylb._mpi.Comm.reduction; None: there is one rank.  decider: the Decider that\n"
    "has this trigger and observes each iteration; or None.  answers: the objects to return\n"
    "for go, pause, balance, end and failed.  kind, lag, balance: see csrc/decide/atsync.h.",
    {Py_tp_getset, atsync_getset}, {Py_tp_traverse, atsync_traverse},
    {Py_tp_clear, atsync_clear}, )

static int constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ATSYNC_WINDOW", PLB_ATSYNC_WINDOW);
}

const plb_py_room_t plb_py_run = {NULL, {&atsync_spec}, constants};
