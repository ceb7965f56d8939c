/* Room decide: one rank at AtSync as a Python object.  One call at the end of an iteration sums
 * the loads, contributes the statistics, takes what has come and answers; it waits, politely and
 * without the GIL, only where it has to. */
#include "bind/views.h"

enum { N_ANSWERS = PLB_ATSYNC_FAILED + 1 };

typedef struct atsync_object {
    PyObject_HEAD plb_atsync_t core;
    plb_reduction_t alone;       /* where there is no MPI */
    PyObject *reduction;         /* the capsule, or None */
    PyObject *trigger, *decider; /* owned; decider: or None */
    PyObject *recorder;          /* owned */
    PyObject *answers;           /* tuple, by plb_atsync_answer_t */
    PyObject *index_of;          /* dict by key; NULL where the rank runs as a whole */
    PyArrayObject *seconds, *window, *estimates; /* as pylb.run.objects.Store has them */
    int64_t *slot;                               /* by index; of the whole rank at 0 */
    bool idle;                                   /* nothing has happened since `wait` began */
    plb_wait_t wait;
    PyThreadState *state;
} atsync_object_t;

static int64_t now_ns(void)
{
    return plb_clock_ns(PLB_CLOCK_WALL);
}

/* ---- the objects --------------------------------------------------------------------------- */

/* The slot of objects that are here already, new ones for the others. */
static int take_slots(atsync_object_t *self, PyObject *keys, PyObject *index_of, int64_t *slot)
{
    plb_err_t err = {0, ""};
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
        const int ret = plb_atsync_join(&self->core, &slot[i], now_ns(), &err);
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
            return -1;
        }
    }
    return 0;
}

/* All objects that stand begin their next iteration, where they may. */
static int set_off(atsync_object_t *self)
{
    plb_err_t err = {0, ""};
    plb_atsync_answer_t answer;
    const Py_ssize_t n = self->index_of ? PyDict_GET_SIZE(self->index_of) : 0;
    int ret = PLB_OK;
    if (self->core.rank.contributed == 0) {
        ret = plb_atsync_begin(&self->core, now_ns(), &err);
    }
    for (Py_ssize_t i = 0; i < n && ret == PLB_OK; i++) {
        ret = plb_atsync_ask(&self->core, self->slot[i], &answer, &err);
    }
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
    }
    return ret == PLB_OK ? 0 : -1;
}

/* Objects that are no longer here.  After the others have joined: a rank without any would run
 * ahead. */
static int drop_slots(atsync_object_t *self, PyObject *index_of)
{
    plb_err_t err = {0, ""};
    PyObject *key, *index;
    Py_ssize_t at = 0;
    while (self->index_of != NULL && PyDict_Next(self->index_of, &at, &key, &index)) {
        const int here = PyDict_Contains(index_of, key);
        const int ret = here == 0
                            ? plb_atsync_leave(&self->core, self->slot[PyLong_AsSsize_t(index)],
                                               now_ns(), &err)
                            : PLB_OK;
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
        }
        if (here < 0 || ret != PLB_OK) {
            return -1;
        }
    }
    return 0;
}

static int bind_each(atsync_object_t *self, PyObject *keys)
{
    PyObject *index_of = PyDict_New();
    int64_t *slot = plb_malloc((size_t)PyTuple_GET_SIZE(keys), sizeof *slot);
    if (index_of == NULL || slot == NULL) {
        PyErr_NoMemory();
    } else if (take_slots(self, keys, index_of, slot) == 0 && drop_slots(self, index_of) == 0) {
        const bool is_first = self->index_of == NULL;
        Py_XSETREF(self->index_of, index_of);
        plb_free(self->slot);
        self->slot = slot;
        return is_first ? set_off(self) : 0;
    }
    Py_XDECREF(index_of);
    plb_free(slot);
    return -1;
}

/* The first time the rank joins as a whole, and begins its first iteration. */
static int bind_whole(atsync_object_t *self)
{
    plb_err_t err_ = {0, ""}, *err = &err_;
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
    if (ret != PLB_OK) {
        plb_py_raise(ret, err);
    }
    return ret == PLB_OK ? 0 : -1;
}

PyDoc_STRVAR(
    bind_doc,
    "bind($self, keys, recorder, seconds, window, estimates, /)\n--\n\n"
    "The objects of this rank from now on: their keys, a tuple, or None where the rank\n"
    "runs as a whole; what times them; their n loads of the iteration, sums of loads, and\n"
    "the (9, n) table of their estimates.");
static PyObject *bind(PyObject *object, PyObject *args)
{
    atsync_object_t *self = (atsync_object_t *)object;
    PyObject *keys, *recorder, *array[3];
    if (!PyArg_ParseTuple(args, "OOO!O!O!", &keys, &recorder, &PyArray_Type, &array[0],
                          &PyArray_Type, &array[1], &PyArray_Type, &array[2])) {
        return NULL;
    }
    const Py_ssize_t n =
        keys == Py_None ? PyArray_SIZE((PyArrayObject *)array[0]) : PyTuple_Size(keys);
    for (int i = 0; i < 3 && n >= 0; i++) {
        PyArrayObject *a = (PyArrayObject *)array[i];
        if (PyArray_TYPE(a) != NPY_FLOAT64 || !PyArray_ISCARRAY(a) ||
            PyArray_SIZE(a) != (i < 2 ? n : PLB_ESTIMATE_ROWS * n)) {
            PyErr_Format(PyExc_ValueError, "expected contiguous float64 arrays for %zd objects",
                         n);
        }
    }
    if (PyErr_Occurred() || (keys == Py_None ? bind_whole(self) : bind_each(self, keys)) != 0) {
        return NULL;
    }
    Py_XSETREF(self->recorder, Py_NewRef(recorder));
    Py_XSETREF(self->seconds, (PyArrayObject *)Py_NewRef(array[0]));
    Py_XSETREF(self->window, (PyArrayObject *)Py_NewRef(array[1]));
    Py_XSETREF(self->estimates, (PyArrayObject *)Py_NewRef(array[2]));
    Py_RETURN_NONE;
}

/* The loads of an iteration, of object i or (-1) of all, are in the statistics: onto what is known
 * of the objects. */
static void end_pass(atsync_object_t *self, Py_ssize_t i)
{
    const Py_ssize_t n = PyArray_SIZE(self->seconds), end = i < 0 ? n : i + 1;
    double *seconds = PyArray_DATA(self->seconds), *window = PyArray_DATA(self->window);
    double *estimates = PyArray_DATA(self->estimates);
    for (Py_ssize_t k = i < 0 ? 0 : i; k < end; k++) {
        plb_estimate_one(seconds[k], k, n, estimates);
        window[k] += seconds[k];
        seconds[k] = 0.0;
    }
}

/* ---- at AtSync ------------------------------------------------------------------------------ */

static PyObject *answer_or_raise(atsync_object_t *self, int ret, plb_atsync_answer_t answer,
                                 const plb_err_t *err)
{
    return ret == PLB_OK ? Py_NewRef(PyTuple_GET_ITEM(self->answers, answer))
                         : plb_py_raise(ret, err);
}

static int progress_and_ask(atsync_object_t *self, int64_t slot, int64_t now,
                            plb_atsync_answer_t *answer, plb_err_t *err)
{
    const int ret = plb_atsync_progress(&self->core, now, err);
    return ret == PLB_OK ? plb_atsync_ask(&self->core, slot, answer, err) : ret;
}

/* The end of a loop is the end of all ranks'. */
static bool waits(const atsync_object_t *self, plb_atsync_answer_t answer)
{
    return answer == PLB_ATSYNC_PAUSE ||
           (answer == PLB_ATSYNC_END && !plb_atsync_over(&self->core));
}

static int wait_for_answer(atsync_object_t *self, int64_t slot, plb_atsync_answer_t *answer,
                           plb_err_t *err)
{
    int ret = PLB_OK;
    plb_wait_t wait;
    int64_t now;
    self->state = PyEval_SaveThread();
    plb_wait_begin(&wait, plb_py_tick, &self->state);
    do {
        ret = plb_wait_pause(&wait);
        now = now_ns();
    } while (ret == PLB_OK && (ret = progress_and_ask(self, slot, now, answer, err)) == PLB_OK &&
             waits(self, *answer));
    PyEval_RestoreThread(self->state);
    self->core.waited += 1e-9 * (double)(now - wait.start);
    return ret;
}

static int check_bound(const atsync_object_t *self, bool each)
{
    if (self->slot == NULL || (self->index_of != NULL) != each) {
        PyErr_SetString(PyExc_RuntimeError, "not bound to objects in this way");
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(at_sync_doc,
             "at_sync($self, /)\n--\n\n"
             "The rank as a whole is through its iteration: go, balance, end or failed.  Waits\n"
             "where the lag asks for it, at the final iteration and at the end of the loop.");
static PyObject *at_sync(PyObject *object, PyObject *unused)
{
    (void)unused;
    atsync_object_t *self = (atsync_object_t *)object;
    plb_err_t err = {0, ""};
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    if (check_bound(self, false) != 0) {
        return NULL;
    }
    const int64_t now = now_ns(), slot = self->slot[0];
    int ret = PLB_OK;
    if (plb_atsync_runs(&self->core, slot)) {
        ret = plb_atsync_reached(&self->core, slot, PyArray_DATA(self->seconds),
                                 PyArray_SIZE(self->seconds), now, &err);
        end_pass(self, -1);
    }
    if (ret == PLB_OK) {
        ret = progress_and_ask(self, slot, now, &answer, &err);
    }
    if (ret == PLB_OK && waits(self, answer)) {
        ret = wait_for_answer(self, slot, &answer, &err);
    }
    return answer_or_raise(self, ret, answer, &err);
}

/* Index of the object with that key, or -1 with a KeyError. */
static Py_ssize_t index_of(const atsync_object_t *self, PyObject *key)
{
    PyObject *index = PyDict_GetItemWithError(self->index_of, key);
    if (index == NULL && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, key);
    }
    return index ? PyLong_AsSsize_t(index) : -1;
}

PyDoc_STRVAR(reached_doc,
             "reached($self, key, load=None, /)\n--\n\n"
             "An object is through its iteration, or asks again: go, pause, balance, end or\n"
             "failed.  load: of the iteration, instead of the time.  Never waits.");
static PyObject *reached(PyObject *object, PyObject *const *args, Py_ssize_t n_args)
{
    atsync_object_t *self = (atsync_object_t *)object;
    plb_err_t err = {0, ""};
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    if (check_bound(self, true) != 0) {
        return NULL;
    }
    if (n_args < 1 || n_args > 2) {
        return PyErr_Format(PyExc_TypeError, "expected a key and a load, not %zd arguments",
                            n_args);
    }
    const Py_ssize_t i = index_of(self, args[0]);
    const double load = i >= 0 && n_args > 1 ? PyFloat_AsDouble(args[1]) : 0.0;
    if (PyErr_Occurred()) {
        return NULL;
    }
    int ret = PLB_OK;
    const int64_t now = now_ns(), slot = self->slot[i];
    if (plb_atsync_runs(&self->core, slot)) {
        double *seconds = (double *)PyArray_DATA(self->seconds) + i;
        plb_py_recorder_cut(self->recorder);
        *seconds = n_args > 1 ? load : *seconds;
        ret = plb_atsync_reached(&self->core, slot, seconds, 1, now, &err);
        end_pass(self, i);
        self->idle = false;
    }
    if (ret == PLB_OK) {
        ret = progress_and_ask(self, slot, now, &answer, &err);
    }
    self->idle = self->idle && answer != PLB_ATSYNC_GO;
    return answer_or_raise(self, ret, answer, &err);
}

PyDoc_STRVAR(ask_doc, "ask($self, /)\n--\n\n"
                      "What this rank is to do: pause, balance, end (all ranks have) or failed.\n"
                      "Called again and again while no object reports, it sleeps between looks,\n"
                      "a fifth of a millisecond at most.");
static PyObject *ask(PyObject *object, PyObject *unused)
{
    (void)unused;
    atsync_object_t *self = (atsync_object_t *)object;
    plb_err_t err = {0, ""};
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    int ret = progress_and_ask(self, -1, now_ns(), &answer, &err);
    if (ret != PLB_OK || answer != PLB_ATSYNC_PAUSE) {
        return answer_or_raise(self, ret, answer, &err);
    }
    if (!self->idle) {
        self->idle = true;
        plb_wait_begin(&self->wait, NULL, NULL);
    }
    Py_BEGIN_ALLOW_THREADS ret = plb_wait_pause(&self->wait);
    Py_END_ALLOW_THREADS return answer_or_raise(self, ret, answer, &err);
}

PyDoc_STRVAR(serve_doc,
             "serve($self, seconds, /)\n--\n\n"
             "Help the others until nothing is under way (all ranks have ended, or balance) or\n"
             "the time is over; whether nothing is.  Less than zero: no limit.");
static PyObject *serve(PyObject *object, PyObject *arg)
{
    atsync_object_t *self = (atsync_object_t *)object;
    plb_err_t err = {0, ""};
    const double seconds = PyFloat_AsDouble(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    int ret = PLB_OK;
    plb_wait_t wait;
    self->state = PyEval_SaveThread();
    plb_wait_begin(&wait, plb_py_tick, &self->state);
    for (;;) {
        const int64_t now = now_ns();
        ret = plb_atsync_progress(&self->core, now, &err);
        if (ret != PLB_OK || plb_atsync_over(&self->core) ||
            (seconds >= 0.0 && 1e-9 * (double)(now - wait.start) > seconds) ||
            (ret = plb_wait_pause(&wait)) != PLB_OK) {
            break;
        }
    }
    PyEval_RestoreThread(self->state);
    return ret == PLB_OK ? PyBool_FromLong(plb_atsync_over(&self->core)) : plb_py_raise(ret, &err);
}

PyDoc_STRVAR(balanced_doc,
             "balanced($self, /)\n--\n\n"
             "The balancing that was asked for is over, bind was called: all objects run.");
static PyObject *balanced(PyObject *object, PyObject *unused)
{
    (void)unused;
    atsync_object_t *self = (atsync_object_t *)object;
    plb_err_t err = {0, ""};
    const int ret = plb_atsync_balanced(&self->core, now_ns(), &err);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    if (set_off(self) != 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(give_up_doc,
             "give_up($self, failed, /)\n--\n\n"
             "This rank leaves the loop, and `serve` helps the others; failed: they shall leave\n"
             "too.");
static PyObject *give_up(PyObject *object, PyObject *failed)
{
    plb_err_t err = {0, ""};
    const int is = PyObject_IsTrue(failed);
    const int ret =
        is < 0 ? PLB_ERR_CALLBACK
               : plb_atsync_give_up(&((atsync_object_t *)object)->core, is, now_ns(), &err);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

/* ---- what is known -------------------------------------------------------------------------- */

PyDoc_STRVAR(rows_doc,
             "rows($self, begin, /)\n--\n\n"
             "(m, 9) float64: time, max, mean, idle, utilization, min, messages and bytes of the\n"
             "iterations whose statistics are known, from the begin-th on; load of this rank.");
static PyObject *rows(PyObject *object, PyObject *arg)
{
    const plb_atsync_t *core = &((atsync_object_t *)object)->core;
    const long long begin = PyLong_AsLongLong(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (begin < 0 || begin > core->n_rows) {
        return PyErr_Format(PyExc_ValueError, "begin is %lld: expected 0 ... %lld", begin,
                            (long long)core->n_rows);
    }
    npy_intp shape[2] = {(npy_intp)(core->n_rows - begin), sizeof *core->row / sizeof(double)};
    PyObject *out = PyArray_SimpleNew(2, shape, NPY_FLOAT64);
    if (out != NULL && shape[0] > 0) {
        memcpy(PyArray_DATA((PyArrayObject *)out), core->row + begin,
               (size_t)shape[0] * sizeof *core->row);
    }
    return out;
}

PyDoc_STRVAR(why_doc,
             "why($self, /)\n--\n\n"
             "(iteration, reason, tau, number of the reason) of what the trigger said when\n"
             "it decided on the balancing that is due.");
static PyObject *why(PyObject *object, PyObject *unused)
{
    (void)unused;
    const plb_atsync_t *core = &((atsync_object_t *)object)->core;
    const long long at =
        core->wish.decided ? core->wish.decided_at : core->opt.first + core->rank.seen - 1;
    return Py_BuildValue("Lsdi", at, plb_reason_words(core->wish.why.reason), core->wish.why.tau,
                         (int)core->wish.why.reason);
}

static PyObject *over(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(plb_atsync_over(&((atsync_object_t *)object)->core));
}

static PyObject *whole(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((atsync_object_t *)object)->core.whole);
}

static PyObject *final_iteration(PyObject *object, void *unused)
{
    (void)unused;
    const plb_atsync_t *core = &((atsync_object_t *)object)->core;
    if (core->rank.final == PLB_NEVER) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(core->opt.first + core->rank.final - 1);
}

static PyObject *contributed(PyObject *object, void *unused)
{
    (void)unused;
    const plb_atsync_t *core = &((atsync_object_t *)object)->core;
    return PyLong_FromLongLong(core->opt.first + core->rank.contributed);
}

static PyObject *seen(PyObject *object, void *unused)
{
    (void)unused;
    const plb_atsync_t *core = &((atsync_object_t *)object)->core;
    return PyLong_FromLongLong(core->opt.first + core->rank.seen);
}

/* ---- the type ------------------------------------------------------------------------------- */

/* The reductions of the capsule, or of a rank alone; NULL with an exception. */
static const plb_reduction_t *reduction_of(atsync_object_t *self, PyObject *reduction, int lag)
{
    plb_err_t err = {0, ""};
    if (reduction != Py_None) {
        return PyCapsule_GetPointer(reduction, PLB_PY_REDUCTION);
    }
    const int ret =
        plb_reduction_alone(&self->alone, (lag > 0 ? lag : PLB_ATSYNC_WINDOW) + 2, &err);
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        return NULL;
    }
    return &self->alone;
}

static PyObject *atsync_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"reduction", "trigger", "decider", "answers", "kind",
                            "first",     "n",       "lag",     "balance", NULL};
    PyObject *reduction, *trigger, *decider, *answers;
    long long kind, first, n;
    int lag, balance;
    plb_err_t err = {0, ""};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!LLLip:AtSync", names, &reduction,
                                     &trigger, &decider, &PyTuple_Type, &answers, &kind, &first,
                                     &n, &lag, &balance)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(answers) != N_ANSWERS) {
        return PyErr_Format(PyExc_ValueError, "answers: expected %d", N_ANSWERS);
    }
    plb_trigger_t *core_trigger = plb_py_trigger(trigger);
    plb_decider_t *core_decider = decider != Py_None ? plb_py_decider(decider) : NULL;
    if (PyErr_Occurred()) {
        return NULL;
    }
    atsync_object_t *self = core_trigger ? (atsync_object_t *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL) {
        return NULL;
    }
    self->reduction = Py_NewRef(reduction);
    self->trigger = Py_NewRef(trigger);
    self->decider = Py_NewRef(decider);
    self->answers = Py_NewRef(answers);
    const plb_reduction_t *net = reduction_of(self, reduction, lag);
    const plb_atsync_options_t opt = {kind, first, n, lag, balance};
    const int ret = net ? plb_atsync_init(&self->core, &opt, net, core_trigger, now_ns(), &err)
                        : PLB_ERR_CALLBACK;
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        Py_CLEAR(self);
        return NULL;
    }
    plb_atsync_decide(&self->core, core_decider);
    return (PyObject *)self;
}

static int atsync_traverse(PyObject *object, visitproc visit, void *arg)
{
    atsync_object_t *self = (atsync_object_t *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->reduction);
    Py_VISIT(self->trigger);
    Py_VISIT(self->decider);
    Py_VISIT(self->recorder);
    Py_VISIT(self->answers);
    Py_VISIT(self->index_of);
    Py_VISIT(self->seconds);
    Py_VISIT(self->window);
    Py_VISIT(self->estimates);
    return 0;
}

/* The recorder alone leads to objects of the program. */
static int atsync_clear(PyObject *object)
{
    Py_CLEAR(((atsync_object_t *)object)->recorder);
    return 0;
}

static void atsync_dealloc(PyObject *object)
{
    atsync_object_t *self = (atsync_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    plb_atsync_free(&self->core);
    plb_reduction_alone_free(&self->alone);
    plb_free(self->slot);
    atsync_clear(object);
    Py_XDECREF(self->reduction);
    Py_XDECREF(self->trigger);
    Py_XDECREF(self->decider);
    Py_XDECREF(self->answers);
    Py_XDECREF(self->index_of);
    Py_XDECREF(self->seconds);
    Py_XDECREF(self->window);
    Py_XDECREF(self->estimates);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef atsync_methods[] = {
    {"bind", bind, METH_VARARGS, bind_doc},
    {"at_sync", at_sync, METH_NOARGS, at_sync_doc},
    {"reached", _PyCFunction_CAST(reached), METH_FASTCALL, reached_doc},
    {"ask", ask, METH_NOARGS, ask_doc},
    {"serve", serve, METH_O, serve_doc},
    {"balanced", balanced, METH_NOARGS, balanced_doc},
    {"give_up", give_up, METH_O, give_up_doc},
    {"rows", rows, METH_O, rows_doc},
    {"why", why, METH_NOARGS, why_doc},
    {0},
};

static PyGetSetDef atsync_getset[] = {
    {"over", over, NULL, "Nothing is under way: all ranks have ended, or are to balance.", NULL},
    {"whole", whole, NULL, "All ranks ran every iteration that is known.", NULL},
    {"final", final_iteration, NULL, "The final iteration that is announced, or None.", NULL},
    {"contributed", contributed, NULL, "The iteration that this rank is in.", NULL},
    {"seen", seen, NULL, "The first iteration whose statistics are not known yet.", NULL},
    {0},
};

PyDoc_STRVAR(atsync_doc,
             "AtSync(reduction, trigger, decider, answers, kind, first, n, lag, balance)\n--\n\n"
             "One rank in a loop of n iterations, the first of which is called `first`.\n"
             "reduction: of pylb._mpi.Comm, or None: one rank.  decider: that of the trigger,\n"
             "which learns of each iteration, or None.  answers: what stands for go,\n"
             "pause, balance, end and failed.  lag: D, 0: none.  balance: False: watch only.");
static PyType_Slot atsync_slots[] = {
    {Py_tp_doc, (void *)atsync_doc}, {Py_tp_new, atsync_new},
    {Py_tp_dealloc, atsync_dealloc}, {Py_tp_traverse, atsync_traverse},
    {Py_tp_clear, atsync_clear},     {Py_tp_methods, atsync_methods},
    {Py_tp_getset, atsync_getset},   {0, NULL},
};

static PyType_Spec atsync_spec = {
    .name = "pylb._core.AtSync",
    .basicsize = sizeof(atsync_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = atsync_slots,
};

int plb_py_add_atsync(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &atsync_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0 ||
                       PyModule_AddIntConstant(module, "ATSYNC_WINDOW", PLB_ATSYNC_WINDOW) != 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
