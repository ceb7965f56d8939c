/* Iterates over a rank's objects, and measures how long the program takes for each.  The clock is
 * read one time per object: when one object ends, the next one begins. */
#include "bind/rooms.h"

struct loop;

typedef struct recorder {
    PLB_PY_HEAD plb_clock_t clock;
    PyArrayObject *keys;    /* [n] int64 */
    PyObject *values;       /* list of the objects */
    PyArrayObject *seconds; /* [n] float64, seconds in this iteration so far */
    struct loop *running;   /* the loop that is measuring an object now; NULL: none; borrowed */
} recorder_t;

/* One `for` loop.  It owns its arrays, so they exist whatever the loop's body does. */
typedef struct loop {
    PyObject_HEAD recorder_t *recorder;
    PyArrayObject *keys;
    PyObject *values;
    PyObject *pair; /* the previous (key, object); reused unless the loop's body has kept it */
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
        Py_CLEAR(self->pair);
    }
}

static PyObject *pair_of(loop_t *self, Py_ssize_t i)
{
    PyObject *key = PyLong_FromLongLong(((int64_t *)PyArray_DATA(self->keys))[i]);
    if (key == NULL) {
        return NULL;
    }
    PyObject *value = Py_NewRef(PyList_GET_ITEM(self->values, i));
    if (self->pair == NULL || Py_REFCNT(self->pair) > 1) {
        Py_XSETREF(self->pair, PyTuple_New(2));
        if (self->pair == NULL) {
            Py_DECREF(key);
            Py_DECREF(value);
            return NULL;
        }
    } else {
        PyObject *old[2] = {PyTuple_GET_ITEM(self->pair, 0), PyTuple_GET_ITEM(self->pair, 1)};
        PyTuple_SET_ITEM(self->pair, 0, key);
        PyTuple_SET_ITEM(self->pair, 1, value);
        /* the garbage collector does not track a pair whose items were plain values */
        if (!PyObject_GC_IsTracked(self->pair)) {
            PyObject_GC_Track(self->pair);
        }
        PyObject *pair = Py_NewRef(self->pair);
        Py_DECREF(old[0]);
        Py_DECREF(old[1]); /* may run any Python code */
        return pair;
    }
    PyTuple_SET_ITEM(self->pair, 0, key);
    PyTuple_SET_ITEM(self->pair, 1, value);
    return Py_NewRef(self->pair);
}

static PyObject *loop_next(PyObject *object)
{
    loop_t *self = (loop_t *)object;
    if ((self->values) == NULL) {
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
    return pair_of(self, self->next++);
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
    Py_VISIT(self->pair);
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

static PyTypeObject *loop_type; /* one type for the whole process */

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
        loop->pair = NULL;
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
    const bool is_one = Py_TYPE(recorder)->tp_iter == recorder_iter;
    loop_t *loop = is_one ? ((recorder_t *)recorder)->running : NULL;
    if (loop != NULL) {
        const int64_t now = plb_clock_ns(loop->clock);
        stop_clock(loop, now);
        loop->last = now;
    }
}

static PyMethodDef recorder_methods[] = {{0}};

PLB_PY_TYPE(recorder, "pylb._core.Recorder", "keys values:L seconds clock",
            "Iterates over (keys[i], values[i]) in order, and adds the time that the loop's body\n"
            "took with item i to seconds[i].  clock: see load_clock().  `values` must not change.",
            {Py_tp_traverse, recorder_traverse}, {Py_tp_clear, recorder_clear},
            {Py_tp_iter, recorder_iter}, )

int64_t plb_py_estimate_rows(PyObject *table, int64_t n)
{
    return PyArray_Check(table) && PyArray_SIZE((PyArrayObject *)table) == PLB_ESTIMATE_HERE * n
               ? PLB_ESTIMATE_HERE
               : PLB_ESTIMATE_ROWS;
}

PLB_PY_DEF(
    fn, end_pass, "loads table window",
    "Update the table of estimates with loads[n], the loads of one iteration; then add loads\n"
    "to window[n], and set loads to zero.  The table has ESTIMATE_ROWS or ESTIMATE_HERE rows\n"
    "of n numbers, which csrc/measure/measure.h describes.")
{
    PyObject *object[3];
    PLB_PASS(PLB_READ(c, PLB_ONE(&object[0]), PLB_ONE(&object[1]), PLB_ONE(&object[2])));
    const int64_t n =
        PyArray_Check(object[0]) ? PyArray_SIZE((PyArrayObject *)object[0]) : PLB_ESTIMATE_ROWS;
    double *loads = plb_py_in_place(object[0], "loads", NPY_FLOAT64, n);
    const int64_t rows = plb_py_estimate_rows(object[1], n);
    double *table = plb_py_in_place(object[1], "table", NPY_FLOAT64, rows * n);
    double *window = plb_py_in_place(object[2], "window", NPY_FLOAT64, n);
    if (loads == NULL || table == NULL || window == NULL) {
        return -1;
    }
    (rows == PLB_ESTIMATE_ROWS ? plb_estimate_update : plb_estimate_mean)(loads, n, table);
    for (int64_t i = 0; i < n; i++) {
        window[i] += loads[i];
        loads[i] = 0.0;
    }
    return PLB_OK;
}

PLB_PY_DEF(fn, pick, "values:L places",
           "Return a list of values[i] for each index i in `places`.  Every index must exist.")
{
    PyObject *values;
    const int64_t *place;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&values), PLB_MANY(&place, &n)));
    PyObject *out = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; out != NULL && i < n; i++) {
        if (place[i] < 0 || place[i] >= PyList_GET_SIZE(values)) {
            Py_CLEAR(out);
            PyErr_Format(PyExc_IndexError, "places has %lld: expected an index of the %zd values",
                         (long long)place[i], PyList_GET_SIZE(values));
        } else {
            PyList_SET_ITEM(out, i, Py_NewRef(PyList_GET_ITEM(values, place[i])));
        }
    }
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const methods[] = {&fn_end_pass, &fn_pick, NULL};

static int add_loop(PyObject *module)
{
    loop_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &loop_spec, NULL);
    return loop_type != NULL ? 0 : -1;
}

const plb_py_room_t plb_py_run_recorder = {methods, {&recorder_spec}, add_loop};
