/* Room decide: the table of triggers, and a trigger as a Python object. */
#include "bind/views.h"

typedef struct trigger_object {
    PyObject ob_base;
    plb_trigger_t core;
} trigger_object_t;

plb_trigger_t *plb_py_trigger(PyObject *object)
{
    PyObject *module = PyImport_ImportModule("pylb._core");
    PyObject *type = module ? PyObject_GetAttrString(module, "Trigger") : NULL;
    const int is = type ? PyObject_IsInstance(object, type) : -1;
    Py_XDECREF(type);
    Py_XDECREF(module);
    if (is == 0) {
        PyErr_Format(PyExc_TypeError, "trigger is %R: expected a pylb.Trigger", object);
    }
    return is == 1 ? &((trigger_object_t *)object)->core : NULL;
}

/* ---- a Python callable as a trigger --------------------------------------------------------- */

/* The state is the callable itself, owned. */
static void observe_callable(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    PyObject *const call = *(PyObject **)self->state;
    const plb_cycle_t *c = &self->cycle;
    const double left =
        self->end == INT64_MAX ? Py_HUGE_VAL : (double)(self->end - 1 - o->iteration);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *answer =
        PyObject_CallFunction(call, "LddLdddd", (long long)o->iteration, o->max, o->mean,
                              (long long)c->n, c->u, c->U, self->cost, left);
    const int says = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    PyGILState_Release(state);
    self->failed = says < 0 ? PLB_ERR_CALLBACK : PLB_OK;
    v->excess = c->U;
    v->reason = says > 0 ? PLB_REASON_ASKED : PLB_REASON_EARLY;
}

static const plb_trigger_kind_t kind_callable = {
    .name = "python",
    .help = "a function of one's own",
    .source = "",
    .state_size = sizeof(PyObject *),
    .observe = observe_callable,
};

/* The kind of that name, the one of callables, or NULL with an exception. */
static const plb_trigger_kind_t *kind_of(PyObject *which)
{
    if (PyCallable_Check(which)) {
        return &kind_callable;
    }
    const char *name = PyUnicode_AsUTF8(which);
    const plb_trigger_kind_t *kind = name ? plb_trigger_find(name) : NULL;
    if (kind == NULL && name != NULL) {
        PyErr_Format(PyExc_ValueError, "trigger %s is not in the table", name);
    }
    return kind;
}

/* ---- the type ------------------------------------------------------------------------------- */

static PyObject *trigger_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "params", NULL};
    PyObject *which, *params;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &which, &params)) {
        return NULL;
    }
    const plb_trigger_kind_t *kind = kind_of(which);
    if (kind == NULL) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_err_t err;
    trigger_object_t *self = NULL;
    PyArrayObject *values = plb_py_hold(&held, params, NPY_FLOAT64, 1);
    if (values != NULL && PyArray_SIZE(values) == kind->n_params) {
        self = (trigger_object_t *)type->tp_alloc(type, 0);
        const int ret =
            self ? plb_trigger_init(&self->core, kind, PyArray_DATA(values), &err) : PLB_OK;
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
            Py_CLEAR(self);
        } else if (self != NULL && kind == &kind_callable) {
            *(PyObject **)self->core.state = Py_NewRef(which);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%s takes %d parameters", kind->name, kind->n_params);
    }
    plb_py_release(&held);
    return (PyObject *)self;
}

static void trigger_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    plb_trigger_t *self = &((trigger_object_t *)object)->core;
    if (self->kind == &kind_callable && self->state != NULL) {
        Py_XDECREF(*(PyObject **)self->state);
    }
    plb_trigger_free(self);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(observe_doc,
             "observe($self, iteration, max, mean, /)\n--\n\n"
             "An iteration is over; max and mean are of the ranks' seconds.  True: balance now.\n"
             "Iterations' numbers rise; one from before the last balancing changes nothing.");
static PyObject *trigger_observe(PyObject *object, PyObject *args)
{
    plb_trigger_t *self = &((trigger_object_t *)object)->core;
    long long iteration;
    plb_observation_t o;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Ldd", &iteration, &o.max, &o.mean)) {
        return NULL;
    }
    o.iteration = iteration;
    const int ret = plb_trigger_observe(self, &o, &err);
    return ret == PLB_OK ? PyBool_FromLong(self->verdict.balance) : plb_py_raise(ret, &err);
}

PyDoc_STRVAR(
    balanced_doc,
    "balanced($self, iteration, cost, max_over_mean, /)\n--\n\n"
    "A balancing took place at the end of `iteration`, cost `cost` seconds, and promises\n"
    "max_over_mean on the loads that it saw.");
static PyObject *trigger_balanced(PyObject *object, PyObject *args)
{
    plb_trigger_t *self = &((trigger_object_t *)object)->core;
    long long iteration;
    double cost, max_over_mean;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Ldd", &iteration, &cost, &max_over_mean)) {
        return NULL;
    }
    const int ret = plb_trigger_balanced(self, iteration, cost, max_over_mean, &err);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(expect_doc,
             "expect($self, end, cost, /)\n--\n\n"
             "What is known before the run: the number behind the last iteration, or None; the\n"
             "seconds that a balancing is expected to take, nan where they are not known.");
static PyObject *trigger_expect(PyObject *object, PyObject *args)
{
    PyObject *end;
    double cost;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Od", &end, &cost)) {
        return NULL;
    }
    const long long last = end == Py_None ? INT64_MAX : PyLong_AsLongLong(end);
    if (PyErr_Occurred()) {
        return NULL;
    }
    const int ret =
        plb_trigger_expect(&((trigger_object_t *)object)->core, (int64_t)last, cost, &err);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

/* Put `value` (stolen, may be NULL) under `name`. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
    const int failed = value == NULL || PyDict_SetItemString(dict, name, value) != 0;
    Py_XDECREF(value);
    return failed;
}

PyObject *plb_py_figures(const plb_verdict_t *v)
{
    PyObject *out = PyDict_New();
    int failed = out == NULL;
#define X(name, unit, help) failed = failed || put(out, #name, PyFloat_FromDouble(v->name));
    PLB_VERDICT(X)
#undef X
    if (failed) {
        Py_CLEAR(out);
    }
    return out;
}

PyDoc_STRVAR(state_doc, "state($self, /)\n--\n\n"
                        "The last verdict and what it rests on, as a dict; nan is not known.");
static PyObject *trigger_state(PyObject *object, PyObject *unused)
{
    (void)unused;
    const plb_trigger_t *self = &((trigger_object_t *)object)->core;
    const plb_verdict_t *v = &self->verdict;
    PyObject *out = plb_py_figures(v);
    if (out == NULL) {
        return NULL;
    }
    int failed = put(out, "trigger", PyUnicode_FromString(self->kind->name)) ||
                 put(out, "balance", PyBool_FromLong(v->balance)) ||
                 put(out, "reason", PyUnicode_FromString(plb_reason_words(v->reason))) ||
                 put(out, "iteration", PyLong_FromLongLong(self->seen)) ||
                 put(out, "last", PyLong_FromLongLong(self->last));
    if (failed) {
        Py_CLEAR(out);
    }
    return out;
}

static PyObject *trigger_name(PyObject *object, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((trigger_object_t *)object)->core.kind->name);
}

static PyObject *trigger_reason(PyObject *object, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(
        plb_reason_words(((trigger_object_t *)object)->core.verdict.reason));
}

static PyObject *trigger_considered(PyObject *object, void *unused)
{
    (void)unused;
    const plb_reason_t reason = ((trigger_object_t *)object)->core.verdict.reason;
    return PyBool_FromLong(reason >= PLB_REASON_SUSPECT && reason < PLB_REASON_EVERY);
}

static PyObject *trigger_params(PyObject *object, void *unused)
{
    (void)unused;
    const plb_trigger_t *self = &((trigger_object_t *)object)->core;
    PyObject *out = PyDict_New();
    for (int i = 0; out != NULL && i < self->kind->n_params; i++) {
        if (put(out, self->kind->params[i].name, PyFloat_FromDouble(self->params[i]))) {
            Py_CLEAR(out);
        }
    }
    return out;
}

static PyObject *trigger_repr(PyObject *object)
{
    PyObject *params = trigger_params(object, NULL);
    const plb_trigger_t *self = &((trigger_object_t *)object)->core;
    PyObject *out =
        params ? PyUnicode_FromFormat("<Trigger %s %R>", self->kind->name, params) : NULL;
    Py_XDECREF(params);
    return out;
}

static PyMethodDef trigger_methods[] = {
    {"expect", trigger_expect, METH_VARARGS, expect_doc},
    {"observe", trigger_observe, METH_VARARGS, observe_doc},
    {"balanced", trigger_balanced, METH_VARARGS, balanced_doc},
    {"state", trigger_state, METH_NOARGS, state_doc},
    {0},
};

static PyGetSetDef trigger_getset[] = {
    {"name", trigger_name, NULL, "Name in the table.", NULL},
    {"params", trigger_params, NULL, "Its parameters, a dict.", NULL},
    {"reason", trigger_reason, NULL, "Why the last verdict, in words.", NULL},
    {"considered", trigger_considered, NULL, "It weighed a balancing, and held back.", NULL},
    {0},
};

PyDoc_STRVAR(trigger_doc,
             "Trigger(name, params)\n--\n\n"
             "When to balance: a state machine that is told of iterations and balancings.\n"
             "name: of the table, or a callable.  params: one value for each parameter of the\n"
             "table, none for a callable.  Use pylb.triggers.make.");
static PyType_Slot trigger_slots[] = {
    {Py_tp_doc, (void *)trigger_doc},
    {Py_tp_new, trigger_new},
    {Py_tp_dealloc, trigger_dealloc},
    {Py_tp_methods, trigger_methods},
    {Py_tp_getset, trigger_getset},
    {Py_tp_repr, trigger_repr},
    {0, NULL},
};

static PyType_Spec trigger_spec = {
    .name = "pylb._core.Trigger",
    .basicsize = sizeof(trigger_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = trigger_slots,
};

PyDoc_STRVAR(table_doc, "triggers()\n--\n\n(name, help, source, params) of every trigger.");
static PyObject *table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *out = PyList_New(0);
    for (const plb_trigger_kind_t *const *k = plb_triggers; out != NULL && *k != NULL; k++) {
        PyObject *row = Py_BuildValue("sssN", (*k)->name, (*k)->help, (*k)->source,
                                      plb_py_params((*k)->params, (*k)->n_params));
        if (row == NULL || PyList_Append(out, row) != 0) {
            Py_CLEAR(out);
        }
        Py_XDECREF(row);
    }
    return out;
}

static PyMethodDef methods[] = {
    {"triggers", table, METH_NOARGS, table_doc},
    {0},
};

int plb_py_add_decide(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &trigger_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ? -1 : 0;
}
