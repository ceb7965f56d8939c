/* Room machine: the learner of speeds as a Python object. */
#include "bind/views.h"

#include <math.h>

typedef struct learner_object {
    PyObject ob_base;
    plb_learner_t core;
    bool busy; /* a thread looks at it, without the interpreter's lock */
} learner_object_t;

static plb_learner_t *core_of(PyObject *object)
{
    return &((learner_object_t *)object)->core;
}

static PyObject *learner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"n_ranks", NULL};
    int n_ranks;
    plb_err_t err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i", names, &n_ranks)) {
        return NULL;
    }
    PyObject *self = type->tp_alloc(type, 0);
    const int ret = self ? plb_learner_init(core_of(self), n_ranks, &err) : PLB_OK;
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        Py_CLEAR(self);
    }
    return self;
}

static void learner_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    plb_learner_free(core_of(object));
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(observe_doc, "observe($self, key, rank, seconds, work, /)\n--\n\n"
                          "The times of objects under another placement; work may be None.");
static PyObject *learner_observe(PyObject *object, PyObject *args)
{
    learner_object_t *self = (learner_object_t *)object;
    PyObject *key, *rank, *seconds, *work;
    plb_py_held_t held = {0};
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "OOOO", &key, &rank, &seconds, &work)) {
        return NULL;
    }
    PyArrayObject *a = plb_py_hold(&held, key, NPY_INT64, 1);
    PyArrayObject *b = a ? plb_py_hold(&held, rank, NPY_INT32, 1) : NULL;
    PyArrayObject *c = b ? plb_py_hold(&held, seconds, NPY_FLOAT64, 1) : NULL;
    PyArrayObject *d = c ? plb_py_hold(&held, work, NPY_FLOAT64, 1) : NULL;
    const npy_intp n = c != NULL ? PyArray_SIZE(a) : -1;
    if (PyErr_Occurred()) {
        /* stands */
    } else if (c == NULL || PyArray_SIZE(b) != n || PyArray_SIZE(c) != n ||
               (d != NULL && PyArray_SIZE(d) != n)) {
        PyErr_SetString(PyExc_ValueError, "key, rank, seconds, work: expected arrays of one size");
    } else if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread observes with this learner");
    } else {
        int ret;
        self->busy = true;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_learner_observe(&self->core, n, PyArray_DATA(a), PyArray_DATA(b),
                                  PyArray_DATA(c), d != NULL ? PyArray_DATA(d) : NULL, &err);
        Py_END_ALLOW_THREADS;
        self->busy = false;
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
        }
    }
    plb_py_release(&held);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* A new array of what is known of each rank, as it is or by its exponential. */
static PyObject *figures(const double *of, npy_intp p, bool exponential)
{
    PyObject *out = PyArray_SimpleNew(1, &p, NPY_FLOAT64);
    double *x = out ? PyArray_DATA((PyArrayObject *)out) : NULL;
    for (npy_intp i = 0; x != NULL && i < p; i++) {
        x[i] = exponential ? exp(of[i]) : of[i];
    }
    return out;
}

static PyObject *get_speed(PyObject *object, void *unused)
{
    (void)unused;
    const plb_learner_t *self = core_of(object);
    return self->unlike ? figures(self->log_speed, self->p, true) : Py_NewRef(Py_None);
}

static PyObject *get_error(PyObject *object, void *unused)
{
    (void)unused;
    return figures(core_of(object)->error, core_of(object)->p, false);
}

static PyObject *get_sigma(PyObject *object, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(core_of(object)->fit.sigma);
}

static PyObject *get_has_changed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(core_of(object)->has_changed);
}

static PyObject *get_explained(PyObject *object, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(core_of(object)->fit.explained);
}

static PyObject *get_evidence(PyObject *object, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(plb_evidence_total(&core_of(object)->evidence));
}

static PyObject *get_sizes(PyObject *object, void *unused)
{
    (void)unused;
    const plb_learner_t *self = core_of(object);
    PyObject *out = PyTuple_New(self->n_seen);
    for (int32_t j = 0; out != NULL && j < self->n_seen; j++) {
        PyObject *n = PyLong_FromLongLong(self->seen[j].n);
        if (n == NULL) {
            Py_CLEAR(out);
        } else {
            PyTuple_SET_ITEM(out, j, n);
        }
    }
    return out;
}

static PyMethodDef learner_methods[] = {
    {"observe", learner_observe, METH_VARARGS, observe_doc},
    {0},
};

static PyGetSetDef learner_getset[] = {
    {"speed", get_speed, NULL, "Geometric mean 1; None where ranks seem alike.", NULL},
    {"error", get_error, NULL, "Standard errors of the speeds' logarithms.", NULL},
    {"sigma", get_sigma, NULL, "Of an observation, in logarithms.", NULL},
    {"has_changed", get_has_changed, NULL, "Whether a rank has since the placement before.", NULL},
    {"explained", get_explained, NULL, "Part of the variance that speeds account for.", NULL},
    {"evidence", get_evidence, NULL, "What the speeds' predictions have gained.", NULL},
    {"sizes", get_sizes, NULL, "Objects that speak in each placement.", NULL},
    {0},
};

PyDoc_STRVAR(learner_doc, "SpeedLearner(n_ranks)\n--\n\n"
                          "Speeds of ranks, learned from one placement after another.");
static PyType_Slot learner_slots[] = {
    {Py_tp_doc, (void *)learner_doc}, {Py_tp_new, learner_new},
    {Py_tp_dealloc, learner_dealloc}, {Py_tp_methods, learner_methods},
    {Py_tp_getset, learner_getset},   {0, NULL},
};

static PyType_Spec learner_spec = {
    .name = "pylb._core.SpeedLearner",
    .basicsize = sizeof(learner_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = learner_slots,
};

int plb_py_add_learner(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &learner_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
