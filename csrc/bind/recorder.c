/* The recorder: gives a rank's objects one by one and times what the program does with each.
 *
 * The clock is read once an object: the end of one is the beginning of the next. */
#include "bind/views.h"

struct loop;

typedef struct recorder {
    PyObject_HEAD plb_clock_t clock;
    PyObject *items;        /* tuple of the objects' (key, object) */
    PyArrayObject *seconds; /* [n] float64, of the pass so far */
    struct loop *running;   /* the one that times an object now, or NULL; borrowed */
} recorder_t;

/* One `for` loop.  It owns what it writes to, so that nothing that happens meanwhile can hurt. */
typedef struct loop {
    PyObject_HEAD recorder_t *recorder;
    PyObject *items;
    PyArrayObject *seconds;
    plb_clock_t clock;
    Py_ssize_t next; /* the object before this one is being timed */
    int64_t last;    /* when it began */
} loop_t;

static void stop_clock(loop_t *self, int64_t now)
{
    if (self->next > 0) {
        double *seconds = PyArray_DATA(self->seconds);
        const int64_t ns = now - self->last; /* a clock that stepped back counts as nothing */
        seconds[self->next - 1] += ns > 0 ? 1e-9 * (double)ns : 0.0;
    }
}

static void loop_end(loop_t *self)
{
    if (self->items != NULL) {
        stop_clock(self, plb_clock_ns(self->clock));
        if (self->recorder->running == self) {
            self->recorder->running = NULL;
        }
        Py_CLEAR(self->recorder);
        Py_CLEAR(self->items);
        Py_CLEAR(self->seconds);
    }
}

static PyObject *loop_next(PyObject *object)
{
    loop_t *self = (loop_t *)object;
    if (self->items == NULL) {
        return NULL;
    }
    if (self->next == PyTuple_GET_SIZE(self->items)) {
        loop_end(self);
        return NULL;
    }
    const int64_t now = plb_clock_ns(self->clock);
    stop_clock(self, now);
    self->last = now;
    self->recorder->running = self;
    return Py_NewRef(PyTuple_GET_ITEM(self->items, self->next++));
}

/* Also where the program leaves the loop by break or an exception. */
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
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((loop_t *)object)->items);
    Py_VISIT(((loop_t *)object)->recorder);
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

static PyTypeObject *loop_type; /* one per process, as NumPy's table */

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"items", "seconds", "clock", NULL};
    PyObject *items, *seconds;
    const char *clock;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!s:Recorder", names, &PyTuple_Type, &items,
                                     &PyArray_Type, &seconds, &clock)) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)seconds;
    if (PyArray_TYPE(a) != NPY_FLOAT64 || !PyArray_ISCARRAY(a) ||
        PyArray_SIZE(a) != PyTuple_GET_SIZE(items)) {
        PyErr_SetString(
            PyExc_ValueError,
            "seconds: expected a contiguous float64 array with an entry for each item");
        return NULL;
    }
    recorder_t *self = (recorder_t *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->clock = strcmp(clock, "cpu") == 0 ? PLB_CLOCK_CPU : PLB_CLOCK_WALL;
        self->items = Py_NewRef(items);
        self->seconds = (PyArrayObject *)Py_NewRef(seconds);
    }
    return (PyObject *)self;
}

static int recorder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((recorder_t *)object)->items);
    return 0;
}

static int recorder_clear(PyObject *object)
{
    recorder_t *self = (recorder_t *)object;
    Py_CLEAR(self->items);
    Py_CLEAR(self->seconds);
    return 0;
}

static void recorder_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    recorder_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *recorder_iter(PyObject *object)
{
    recorder_t *self = (recorder_t *)object;
    loop_t *loop = PyObject_GC_New(loop_t, loop_type);
    if (loop != NULL) {
        loop->recorder = (recorder_t *)Py_NewRef(object);
        loop->items = Py_NewRef(self->items);
        loop->seconds = (PyArrayObject *)Py_NewRef((PyObject *)self->seconds);
        loop->clock = self->clock;
        loop->next = 0;
        loop->last = 0;
        PyObject_GC_Track((PyObject *)loop);
    }
    return (PyObject *)loop;
}

void plb_py_recorder_cut(PyObject *recorder)
{
    loop_t *loop = ((recorder_t *)recorder)->running;
    if (loop != NULL) {
        const int64_t now = plb_clock_ns(loop->clock);
        stop_clock(loop, now);
        loop->last = now;
    }
}

PyDoc_STRVAR(recorder_doc,
             "Recorder(items, seconds, clock, /)\n--\n\n"
             "Iterating gives the items (a tuple) in order and adds to seconds[i] the time that\n"
             "the loop's body took with item i, by the clock \"wall\" or \"cpu\".");
static PyType_Slot recorder_slots[] = {
    {Py_tp_doc, (void *)recorder_doc},
    {Py_tp_new, recorder_new},
    {Py_tp_dealloc, recorder_dealloc},
    {Py_tp_traverse, recorder_traverse},
    {Py_tp_clear, recorder_clear},
    {Py_tp_iter, recorder_iter},
    {0, NULL},
};

static PyType_Spec recorder_spec = {
    .name = "pylb._core.Recorder",
    .basicsize = sizeof(recorder_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = recorder_slots,
};

PyDoc_STRVAR(stats_doc, "stats(samples, /)\n--\n\n"
                        "The merged record of the samples of ranks 0, 1, ... (a list), as\n"
                        "pylb._mpi's steps return it.");
static PyObject *stats(PyObject *module, PyObject *samples)
{
    (void)module;
    plb_stats_t all, record;
    if (!PyList_Check(samples) || PyList_GET_SIZE(samples) == 0) {
        PyErr_SetString(PyExc_ValueError, "samples: expected a list of one or more");
        return NULL;
    }
    for (Py_ssize_t rank = 0; rank < PyList_GET_SIZE(samples); rank++) {
        if (plb_py_sample(PyList_GET_ITEM(samples, rank), (int)rank, &record) != 0) {
            return NULL;
        }
        if (rank == 0) {
            all = record;
        } else {
            plb_stats_merge(&all, &record);
        }
    }
    return plb_py_stats(&all);
}

PyDoc_STRVAR(stats_table_doc,
             "stats_table()\n--\n\n(name, unit, help) of every field of a record, in order.");
static PyObject *stats_table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *out = PyList_New(0);
#define X(name, type, rule, unit, help)                                                           \
    if (out != NULL) {                                                                            \
        PyObject *row = Py_BuildValue("sss", #name, unit, help);                                  \
        if (row == NULL || PyList_Append(out, row) != 0) {                                        \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(row);                                                                          \
    }
    PLB_STATS(X)
#undef X
    return out;
}

static PyMethodDef methods[] = {
    {"stats", stats, METH_O, stats_doc},
    {"stats_table", stats_table, METH_NOARGS, stats_table_doc},
    {0},
};

int plb_py_add_recorder(PyObject *module)
{
    loop_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &loop_spec, NULL);
    PyObject *type = PyType_FromModuleAndSpec(module, &recorder_spec, NULL);
    const int failed =
        loop_type == NULL || type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ? -1 : 0;
}
