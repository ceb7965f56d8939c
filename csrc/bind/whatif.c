/* explore: what would happen if the processes ran elsewhere. */
#include <stddef.h>

#include "bind/views.h"

typedef struct simulation {
    PyObject_HEAD plb_whatif_t *it;
    PyObject *kept; /* list of what C looks at: for each rank its operations, and its steps */
    int32_t n_ranks;
} simulation_t;

/* The target's arrays, checked against each other. */
static int view_target(plb_py_held_t *held, PyObject *const *array, plb_target_t *out,
                       int32_t *n_ranks)
{
    enum { ARRAYS = 6 };
    PyArrayObject *a[ARRAYS];
    const int type[ARRAYS] = {NPY_INT32,   NPY_FLOAT64, NPY_INT32,
                              NPY_FLOAT64, NPY_FLOAT64, NPY_FLOAT64};
    for (int i = 0; i < ARRAYS; i++) {
        if ((a[i] = plb_py_hold(held, array[i], type[i], i < 3 || i == 5 ? 1 : 2)) == NULL) {
            return -1;
        }
    }
    const npy_intp p = PyArray_SIZE(a[1]), nodes = PyArray_DIM(a[3], 0);
    if (PyArray_SIZE(a[2]) != p || PyArray_SIZE(a[3]) != nodes * nodes ||
        PyArray_SIZE(a[4]) != nodes * nodes || PyArray_SIZE(a[5]) != p) {
        PyErr_SetString(PyExc_ValueError, "speed, node, network and share do not fit together");
        return -1;
    }
    *n_ranks = (int32_t)PyArray_SIZE(a[0]);
    out->n_processors = (int32_t)p;
    out->n_nodes = (int32_t)nodes;
    out->place = PyArray_DATA(a[0]);
    out->speed = PyArray_DATA(a[1]);
    out->node = PyArray_DATA(a[2]);
    out->alpha = PyArray_DATA(a[3]);
    out->beta = PyArray_DATA(a[4]);
    out->share = PyArray_DATA(a[5]);
    return 0;
}

static PyObject *simulation_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *start, *member, *array[6];
    plb_target_t target = {0};
    long long eager;
    int waiting, as_recorded;
    if (!PyArg_ParseTuple(args, "OOOOOOOOddLddip", &start, &member, &array[0], &array[1],
                          &array[2], &array[3], &array[4], &array[5], &target.period,
                          &target.overhead, &eager, &target.quantum, &target.polling, &waiting,
                          &as_recorded)) {
        return NULL;
    }
    target.eager = eager;
    target.waiting = (plb_waiting_t)waiting;
    target.as_recorded = as_recorded;
    plb_py_held_t held = {0};
    plb_comms_t comms;
    plb_err_t err = {0, ""};
    simulation_t *self = NULL;
    int32_t n_ranks;
    if (view_target(&held, array, &target, &n_ranks) == 0 &&
        plb_py_comms(&held, start, member, &comms) == 0 &&
        (self = (simulation_t *)type->tp_alloc(type, 0)) != NULL) {
        self->n_ranks = n_ranks;
        self->kept = PyDict_New();
        self->it = self->kept ? plb_whatif_new(n_ranks, &comms, &target, &err) : NULL;
        if (self->it == NULL) {
            if (!PyErr_Occurred()) {
                plb_py_raise(err.code, &err);
            }
            Py_CLEAR(self);
        }
    }
    plb_py_release(&held);
    return (PyObject *)self;
}

static void simulation_dealloc(PyObject *object)
{
    simulation_t *self = (simulation_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    plb_whatif_destroy(self->it);
    Py_XDECREF(self->kept);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(feed_doc, "feed($self, rank, ops, closed, steps, /)\n--\n\n"
                       "All operations of a rank that are known by now; `closed`: there are no\n"
                       "more.  `steps`: as many records to be written, or None.");
static PyObject *simulation_feed(PyObject *object, PyObject *args)
{
    simulation_t *self = (simulation_t *)object;
    int rank, closed;
    PyObject *ops, *steps;
    if (!PyArg_ParseTuple(args, "iOpO", &rank, &ops, &closed, &steps)) {
        return NULL;
    }
    if (rank < 0 || rank >= self->n_ranks) {
        return PyErr_Format(PyExc_IndexError, "rank is %d: expected 0 ... %d", rank,
                            self->n_ranks - 1);
    }
    PyArrayObject *op = plb_py_records(ops, sizeof(plb_op_t), false), *step = NULL;
    if (op == NULL || (steps != Py_None &&
                       (step = plb_py_records(steps, sizeof(plb_op_time_t), true)) == NULL)) {
        return NULL;
    }
    if (step != NULL && PyArray_SIZE(step) < PyArray_SIZE(op)) {
        PyErr_SetString(PyExc_ValueError, "fewer steps than operations");
        return NULL;
    }
    PyObject *key = PyLong_FromLong(rank), *pair = PyTuple_Pack(2, ops, steps);
    plb_err_t err = {0, ""};
    int ret = PLB_ERR_CALLBACK;
    if (key != NULL && pair != NULL) {
        ret = plb_whatif_feed(self->it, rank, PyArray_DATA(op), PyArray_SIZE(op), closed,
                              step ? PyArray_DATA(step) : NULL, &err);
    }
    if (ret == PLB_OK && PyDict_SetItem(self->kept, key, pair) != 0) {
        ret = PLB_ERR_CALLBACK;
    }
    Py_XDECREF(key);
    Py_XDECREF(pair);
    if (ret != PLB_OK) {
        return PyErr_Occurred() ? NULL : plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(comms_doc, "comms($self, start, member, /)\n--\n\nAll communicators known by now.");
static PyObject *simulation_comms(PyObject *object, PyObject *args)
{
    simulation_t *self = (simulation_t *)object;
    PyObject *start, *member;
    plb_comms_t comms;
    if (!PyArg_ParseTuple(args, "OO", &start, &member)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_err_t err = {0, ""};
    int ret = plb_py_comms(&held, start, member, &comms) == 0 ? PLB_OK : PLB_ERR_CALLBACK;
    if (ret == PLB_OK && (ret = plb_whatif_comms(self->it, &comms, &err)) != PLB_OK) {
        plb_py_raise(ret, &err);
    }
    plb_py_release(&held);
    if (ret != PLB_OK) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(run_doc, "run($self, /)\n--\n\n"
                      "As far as the records go; the rank whose next ones are missing, or -1.");
static PyObject *simulation_run(PyObject *object, PyObject *noargs)
{
    (void)noargs;
    simulation_t *self = (simulation_t *)object;
    int32_t missing = -1;
    plb_err_t err = {0, ""};
    PyThreadState *state = PyEval_SaveThread();
    const int ret = plb_whatif_run(self->it, &missing, plb_py_tick, &state, &err);
    PyEval_RestoreThread(state);
    return ret == PLB_OK ? PyLong_FromLong(missing) : plb_py_raise(ret, &err);
}

PyDoc_STRVAR(times_doc, "times($self, /)\n--\n\n"
                        "finish, busy, waiting, paused, done, end, unread of each rank: (p, 7)\n"
                        "float64.");
static PyObject *simulation_times(PyObject *object, PyObject *noargs)
{
    (void)noargs;
    simulation_t *self = (simulation_t *)object;
    const npy_intp shape[2] = {self->n_ranks, 7};
    plb_process_times_t *times = plb_malloc((size_t)self->n_ranks, sizeof *times);
    PyObject *out = times ? PyArray_SimpleNew(2, shape, NPY_FLOAT64) : PyErr_NoMemory();
    if (out != NULL) {
        plb_whatif_times(self->it, times);
        double *to = PyArray_DATA((PyArrayObject *)out);
        for (int32_t r = 0; r < self->n_ranks; r++, to += 7) {
            const plb_process_times_t *t = &times[r];
            const double row[7] = {t->finish,       t->busy, t->waiting, t->paused,
                                   (double)t->done, t->end,  t->unread};
            memcpy(to, row, sizeof row);
        }
    }
    plb_free(times);
    return out;
}

PyDoc_STRVAR(memory_doc, "memory($self, /)\n--\n\nBytes of the simulation itself.");
static PyObject *simulation_memory(PyObject *object, PyObject *noargs)
{
    (void)noargs;
    return PyLong_FromLongLong(plb_whatif_memory(((simulation_t *)object)->it));
}

static PyMethodDef simulation_methods[] = {
    {"feed", simulation_feed, METH_VARARGS, feed_doc},
    {"comms", simulation_comms, METH_VARARGS, comms_doc},
    {"run", simulation_run, METH_NOARGS, run_doc},
    {"times", simulation_times, METH_NOARGS, times_doc},
    {"memory", simulation_memory, METH_NOARGS, memory_doc},
    {0},
};

PyDoc_STRVAR(
    simulation_doc,
    "Simulation(comm_start, comm_member, place, speed, node, alpha, beta, share, period,\n"
    "           overhead, eager, quantum, polling, waiting, as_recorded, /)\n--\n\n"
    "Recorded operations under a target, csrc/explore/whatif.h.");
static PyType_Slot simulation_slots[] = {
    {Py_tp_doc, (void *)simulation_doc},
    {Py_tp_new, simulation_new},
    {Py_tp_dealloc, simulation_dealloc},
    {Py_tp_methods, simulation_methods},
    {0, NULL},
};
static PyType_Spec simulation_spec = {
    .name = "pylb._core.Simulation",
    .basicsize = sizeof(simulation_t),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = simulation_slots,
};

/* [name, ...] in the order of their numbers. */
static PyObject *names(const char *const *name, int n)
{
    PyObject *out = PyList_New(n);
    for (int i = 0; out != NULL && i < n; i++) {
        PyObject *word = PyUnicode_FromString(name[i]);
        if (word == NULL) {
            Py_CLEAR(out);
        } else {
            PyList_SET_ITEM(out, i, word);
        }
    }
    return out;
}

PyDoc_STRVAR(op_layout_doc,
             "op_layout()\n--\n\n"
             "Layout of a record: (name, NumPy type, offset) of each field; names of the\n"
             "kinds and of the collectives, by number.");
static PyObject *op_layout(PyObject *module, PyObject *noargs)
{
    (void)module;
    (void)noargs;
    static const char *const kinds[] = {
#define X(name, help) #name,
        PLB_OPS(X)
#undef X
    };
    static const char *const collectives[] = {
#define X(name) #name,
        PLB_COLLECTIVES(X)
#undef X
    };
#define FIELD(name, type) #name, type, (int)offsetof(plb_op_t, name)
    return Py_BuildValue("([(ssi)(ssi)(ssi)(ssi)(ssi)(ssi)(ssi)(ssi)(ssi)(ssi)(ssi)]NN)",
                         FIELD(compute, "i8"), FIELD(begin, "i8"), FIELD(bytes, "i8"),
                         FIELD(inside, "f4"), FIELD(peer, "i4"), FIELD(tag, "i4"),
                         FIELD(request, "i4"), FIELD(comm, "i4"), FIELD(kind, "u1"),
                         FIELD(flags, "u1"), FIELD(what, "u2"), names(kinds, PLB_N_OPS),
                         names(collectives, PLB_N_COLLECTIVES));
#undef FIELD
}

static PyMethodDef methods[] = {
    {"op_layout", op_layout, METH_NOARGS, op_layout_doc},
    {0},
};

int plb_py_add_whatif(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&simulation_spec);
    const int failed = type == NULL || PyModule_AddObjectRef(module, "Simulation", type) != 0 ||
                       PyModule_AddFunctions(module, methods) != 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
