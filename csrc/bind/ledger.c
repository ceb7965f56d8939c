/* Room decide: the ledger as a Python object. */
#include "bind/views.h"

typedef struct ledger_object {
    PyObject ob_base;
    plb_ledger_t core;
} ledger_object_t;

static plb_ledger_t *core_of(PyObject *object)
{
    return &((ledger_object_t *)object)->core;
}

static PyObject *none_or(int ret, const plb_err_t *err)
{
    return ret == PLB_OK ? Py_NewRef(Py_None) : plb_py_raise(ret, err);
}

static PyObject *ledger_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"strategies", "params", NULL};
    int strategies;
    PyObject *params;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iO", names, &strategies, &params)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_err_t err;
    ledger_object_t *self = NULL;
    PyArrayObject *values = plb_py_hold(&held, params, NPY_FLOAT64, 1);
    if (values != NULL && PyArray_SIZE(values) == PLB_N_LEDGER && strategies >= 0) {
        self = (ledger_object_t *)type->tp_alloc(type, 0);
        const int ret =
            self ? plb_ledger_init(&self->core, strategies, PyArray_DATA(values), &err) : PLB_OK;
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
            Py_CLEAR(self);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "a ledger takes strategies and %d parameters",
                     PLB_N_LEDGER);
    }
    plb_py_release(&held);
    return (PyObject *)self;
}

static void ledger_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    plb_ledger_free(core_of(object));
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(catch_up_doc, "catch_up($self, rows, /)\n--\n\n"
                           "Iterations are over: (m, 3 or more) time, maximum and mean load.");
static PyObject *ledger_catch_up(PyObject *object, PyObject *arg)
{
    plb_py_held_t held = {0};
    plb_err_t err;
    int ret = PLB_OK;
    PyArrayObject *rows = plb_py_hold(&held, arg, NPY_FLOAT64, 2);
    if (rows != NULL && PyArray_DIM(rows, 1) >= 3) {
        const npy_intp n = PyArray_DIM(rows, 0), m = PyArray_DIM(rows, 1);
        const double *row = PyArray_DATA(rows);
        for (npy_intp i = 0; i < n && ret == PLB_OK; i++, row += m) {
            ret = plb_ledger_observe(core_of(object), row[0], row[1], row[2], &err);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "rows: expected (m, 3 or more) float64");
    }
    plb_py_release(&held);
    return PyErr_Occurred() ? NULL : none_or(ret, &err);
}

PyDoc_STRVAR(observe_doc, "observe($self, time, max, mean, /)\n--\n\n"
                          "An iteration is over: its seconds, maximum and mean load.");
static PyObject *ledger_observe(PyObject *object, PyObject *args)
{
    double time, max, mean;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "ddd", &time, &max, &mean)) {
        return NULL;
    }
    return none_or(plb_ledger_observe(core_of(object), time, max, mean, &err), &err);
}

PyDoc_STRVAR(judges_doc, "judges($self, iteration, asked, /)\n--\n\n"
                         "Whether the last balancing is to be judged now.");
static PyObject *ledger_judges(PyObject *object, PyObject *args)
{
    long long iteration;
    int asked;
    if (!PyArg_ParseTuple(args, "Lp", &iteration, &asked)) {
        return NULL;
    }
    return PyBool_FromLong(plb_ledger_judges(core_of(object), iteration, asked));
}

PyDoc_STRVAR(judge_doc, "judge($self, iteration, gain, /)\n--\n\n"
                        "The last balancing has saved `gain` seconds up to and with `iteration`.");
static PyObject *ledger_judge(PyObject *object, PyObject *args)
{
    long long iteration;
    double gain;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Ld", &iteration, &gain)) {
        return NULL;
    }
    return none_or(plb_ledger_judge(core_of(object), iteration, gain, &err), &err);
}

PyDoc_STRVAR(allows_doc, "allows($self, iteration, /)\n--\n\n"
                         "Whether a balancing that is due may take place.");
static PyObject *ledger_allows(PyObject *object, PyObject *iteration)
{
    const long long i = PyLong_AsLongLong(iteration);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(plb_ledger_allows(core_of(object), i));
}

PyDoc_STRVAR(
    balanced_doc,
    "balanced($self, iteration, strategy, statistics, seconds, migration, whole, /)\n--\n\n"
    "A balancing took place; what its parts and all of it took, nan where not known.");
static PyObject *ledger_balanced(PyObject *object, PyObject *args)
{
    long long iteration;
    int strategy;
    plb_costs_t c = {0};
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Lidddd", &iteration, &strategy, &c.statistics, &c.strategy,
                          &c.migration, &c.whole)) {
        return NULL;
    }
    return none_or(plb_ledger_balanced(core_of(object), iteration, strategy, &c, &err), &err);
}

PyDoc_STRVAR(theta_doc, "theta($self, strategy, /)\n--\n\n"
                        "Seconds that a balancing with a strategy costs; nan where not known.");
static PyObject *ledger_theta(PyObject *object, PyObject *strategy)
{
    const long i = PyLong_AsLong(strategy);
    return PyErr_Occurred() ? NULL
                            : PyFloat_FromDouble(plb_ledger_theta(core_of(object), (int32_t)i));
}

PyDoc_STRVAR(state_doc, "state($self, /)\n--\n\nThe books, as a dict.");
static PyObject *ledger_state(PyObject *object, PyObject *unused)
{
    (void)unused;
    const plb_ledger_t *s = core_of(object);
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:L,s:L,s:d,s:d,s:L,s:L,s:d,s:d}", "off", PyBool_FromLong(s->off), "trial",
        PyBool_FromLong(s->trial), "open", PyBool_FromLong(s->open), "until", (long long)s->until,
        "pause", (long long)s->pause, "paid", s->paid, "gained", s->gained, "judged",
        (long long)s->judged, "last", (long long)s->last, "cost", s->cost, "warm_up", s->warm_up);
}

static PyMethodDef ledger_methods[] = {
    {"observe", ledger_observe, METH_VARARGS, observe_doc},
    {"catch_up", ledger_catch_up, METH_O, catch_up_doc},
    {"judges", ledger_judges, METH_VARARGS, judges_doc},
    {"judge", ledger_judge, METH_VARARGS, judge_doc},
    {"allows", ledger_allows, METH_O, allows_doc},
    {"balanced", ledger_balanced, METH_VARARGS, balanced_doc},
    {"theta", ledger_theta, METH_O, theta_doc},
    {"state", ledger_state, METH_NOARGS, state_doc},
    {0},
};

PyDoc_STRVAR(ledger_doc,
             "Ledger(strategies, params)\n--\n\n"
             "Whether balancing pays: a state machine that is told of iterations, balancings and\n"
             "what they have saved.  params: one value for each of ledger().");
static PyType_Slot ledger_slots[] = {
    {Py_tp_doc, (void *)ledger_doc},
    {Py_tp_new, ledger_new},
    {Py_tp_dealloc, ledger_dealloc},
    {Py_tp_methods, ledger_methods},
    {0, NULL},
};

static PyType_Spec ledger_spec = {
    .name = "pylb._core.Ledger",
    .basicsize = sizeof(ledger_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ledger_slots,
};

PyDoc_STRVAR(ledger_table_doc, "ledger()\n--\n\nThe parameters of the ledger.");
static PyObject *ledger_table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return plb_py_params(plb_ledger_params, PLB_N_LEDGER);
}

static PyMethodDef methods[] = {
    {"ledger", ledger_table, METH_NOARGS, ledger_table_doc},
    {0},
};

int plb_py_add_ledger(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &ledger_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ? -1 : 0;
}
