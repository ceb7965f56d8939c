/* Room machine: repeated measurements as a Python object. */
#include "bind/views.h"

typedef struct repeats_object {
    PyObject ob_base;
    plb_repeats_t core;
} repeats_object_t;

static plb_repeats_t *core_of(PyObject *object)
{
    return &((repeats_object_t *)object)->core;
}

static PyObject *repeats_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"n_ranks", NULL};
    int n_ranks;
    plb_err_t err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i", names, &n_ranks)) {
        return NULL;
    }
    PyObject *self = type->tp_alloc(type, 0);
    const int ret = self ? plb_repeats_init(core_of(self), n_ranks, &err) : PLB_OK;
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        Py_CLEAR(self);
    }
    return self;
}

static void repeats_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    plb_repeats_free(core_of(object));
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(begin_doc, "begin($self, /)\n--\n\n"
                        "The ranks have other parts from now on.");
static PyObject *repeats_begin(PyObject *object, PyObject *unused)
{
    (void)unused;
    plb_repeats_begin(core_of(object));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(observe_doc, "observe($self, seconds, busy, /)\n--\n\n"
                          "Another measurement of the ranks that are busy; whether none of them\n"
                          "is in doubt.");
static PyObject *repeats_observe(PyObject *object, PyObject *args)
{
    plb_repeats_t *self = core_of(object);
    PyObject *seconds, *busy, *out = NULL;
    plb_py_held_t held = {0};
    const double *time = NULL;
    const bool *is = NULL;
    if (PyArg_ParseTuple(args, "OO", &seconds, &busy) &&
        plb_py_view(&held, seconds, "seconds", NPY_FLOAT64, self->p, &time) == 0 &&
        plb_py_view(&held, busy, "busy", NPY_BOOL, self->p, &is) == 0) {
        out = PyBool_FromLong(plb_repeats_observe(self, time, is));
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(predicted_doc, "predicted($self, seconds, expected, which, /)\n--\n\n"
                            "Some times that were predicted from parts hardly different; both\n"
                            "were measured.");
static PyObject *repeats_predicted(PyObject *object, PyObject *args)
{
    plb_repeats_t *self = core_of(object);
    PyObject *seconds, *expected, *which, *out = NULL;
    plb_py_held_t held = {0};
    const double *time = NULL, *foreseen = NULL;
    const bool *is = NULL;
    if (PyArg_ParseTuple(args, "OOO", &seconds, &expected, &which) &&
        plb_py_view(&held, seconds, "seconds", NPY_FLOAT64, self->p, &time) == 0 &&
        plb_py_view(&held, expected, "expected", NPY_FLOAT64, self->p, &foreseen) == 0 &&
        plb_py_view(&held, which, "which", NPY_BOOL, self->p, &is) == 0) {
        plb_repeats_predicted(self, time, foreseen, is);
        out = Py_NewRef(Py_None);
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(choose_doc,
             "choose($self, now, bold, bold_paging, safe, tolerance, /)\n--\n\n"
             "Which parts to take, by the seconds of the slowest rank: 0 the present ones, 1 the\n"
             "bold, 2 the safe ones; csrc/machine/repeats.h says what these are.");
static PyObject *repeats_choose(PyObject *object, PyObject *args)
{
    plb_prospects_t p;
    if (!PyArg_ParseTuple(args, "ddddd", &p.now, &p.bold, &p.bold_paging, &p.safe, &p.tolerance)) {
        return NULL;
    }
    return PyLong_FromLong(plb_repeats_choose(core_of(object), &p));
}

static PyObject *copy_of(const void *data, npy_intp n, int type)
{
    PyObject *out = PyArray_SimpleNew(1, &n, type);
    if (out != NULL) {
        memcpy(PyArray_DATA((PyArrayObject *)out), data,
               (size_t)PyArray_NBYTES((PyArrayObject *)out));
    }
    return out;
}

static PyObject *get_mean(PyObject *object, void *unused)
{
    (void)unused;
    return copy_of(core_of(object)->mean, core_of(object)->p, NPY_FLOAT64);
}

static PyObject *get_n(PyObject *object, void *unused)
{
    (void)unused;
    return copy_of(core_of(object)->n, core_of(object)->p, NPY_INT64);
}

static PyMethodDef repeats_methods[] = {
    {"begin", repeats_begin, METH_NOARGS, begin_doc},
    {"observe", repeats_observe, METH_VARARGS, observe_doc},
    {"predicted", repeats_predicted, METH_VARARGS, predicted_doc},
    {"choose", repeats_choose, METH_VARARGS, choose_doc},
    {0},
};

static PyGetSetDef repeats_getset[] = {
    {"mean", get_mean, NULL, "Seconds of each rank that count, (p,).", NULL},
    {"n", get_n, NULL, "Measurements in them, (p,) int64.", NULL},
    {0},
};

PyDoc_STRVAR(repeats_doc, "Repeats(n_ranks)\n--\n\n"
                          "What measuring the same parts of ranks again says.");
static PyType_Slot repeats_slots[] = {
    {Py_tp_doc, (void *)repeats_doc}, {Py_tp_new, repeats_new},
    {Py_tp_dealloc, repeats_dealloc}, {Py_tp_methods, repeats_methods},
    {Py_tp_getset, repeats_getset},   {0, NULL},
};

static PyType_Spec repeats_spec = {
    .name = "pylb._core.Repeats",
    .basicsize = sizeof(repeats_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = repeats_slots,
};

int plb_py_add_repeats(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &repeats_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
