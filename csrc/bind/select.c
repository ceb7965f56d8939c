/* Room decide: strategy selection as a Python object. */
#include "bind/views.h"

typedef struct selector_object {
    PyObject ob_base;
    plb_selector_t core;
} selector_object_t;

static plb_selector_t *core_of(PyObject *object)
{
    return &((selector_object_t *)object)->core;
}

/* (refinement, looks_at) of each candidate; a new array, or NULL with an exception. */
static plb_candidate_t *candidates_of(PyObject *list, Py_ssize_t n)
{
    plb_candidate_t *out = plb_malloc((size_t)n, sizeof *out);
    if (out == NULL) {
        return (plb_candidate_t *)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int refinement;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "pI", &refinement, &out[i].looks_at)) {
            plb_free(out);
            return NULL;
        }
        out[i].family = refinement ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    }
    return out;
}

static PyObject *selector_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"candidates", "alpha", "beta", "params", NULL};
    PyObject *list, *params;
    double alpha, beta;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!ddO", names, &PyList_Type, &list, &alpha,
                                     &beta, &params)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_err_t err;
    selector_object_t *self = NULL;
    const Py_ssize_t n = PyList_GET_SIZE(list);
    plb_candidate_t *candidates = candidates_of(list, n);
    PyArrayObject *values = candidates ? plb_py_hold(&held, params, NPY_FLOAT64, 1) : NULL;
    if (values != NULL && PyArray_SIZE(values) == PLB_N_SELECTION) {
        self = (selector_object_t *)type->tp_alloc(type, 0);
        const int ret = self ? plb_selector_init(&self->core, candidates, (int32_t)n, alpha, beta,
                                                 PyArray_DATA(values), &err)
                             : PLB_OK;
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
            Py_CLEAR(self);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "selection takes %d parameters", PLB_N_SELECTION);
    }
    plb_py_release(&held);
    plb_free(candidates);
    return (PyObject *)self;
}

static void selector_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    plb_selector_free(core_of(object));
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(observe_doc,
             "observe($self, max, mean, total, utilization, messages, bytes, /)\n--\n\n"
             "An iteration is over: seconds of the ranks' loads and of all of them, utilization\n"
             "of the least utilized rank, messages between ranks.  True: a strategy is needed.");
static PyObject *selector_observe(PyObject *object, PyObject *args)
{
    plb_workload_t w;
    plb_err_t err;
    long long messages, bytes;
    if (!PyArg_ParseTuple(args, "ddddLL", &w.max, &w.mean, &w.total, &w.utilization, &messages,
                          &bytes)) {
        return NULL;
    }
    w.messages = messages;
    w.bytes = bytes;
    const int ret = plb_selector_observe(core_of(object), &w, &err);
    return ret == PLB_OK ? PyBool_FromLong(core_of(object)->choice.needed)
                         : plb_py_raise(ret, &err);
}

PyDoc_STRVAR(balanced_doc,
             "balanced($self, candidate, before, after, cost, migrations, /)\n--\n\n"
             "A balancing with that candidate took place; max/mean before and after, seconds.");
static PyObject *selector_balanced(PyObject *object, PyObject *args)
{
    plb_outcome_t o;
    plb_err_t err;
    int candidate;
    long long migrations;
    if (!PyArg_ParseTuple(args, "idddL", &candidate, &o.before, &o.after, &o.cost, &migrations)) {
        return NULL;
    }
    o.migrations = migrations;
    const int ret = plb_selector_balanced(core_of(object), candidate, &o, &err);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(choice_doc, "choice($self, /)\n--\n\n"
                         "What the last iteration asks for, as a dict.");
static PyObject *selector_choice(PyObject *object, PyObject *unused)
{
    (void)unused;
    const plb_choice_t *c = &core_of(object)->choice;
    return Py_BuildValue("{s:N,s:i,s:s,s:s,s:s,s:s,s:s,s:d,s:d,s:d,s:d}", "needed",
                         PyBool_FromLong(c->needed), "candidate", (int)c->candidate, "kind",
                         plb_kind_name(c->kind), "used", plb_kind_name(c->used), "family",
                         plb_family_name(c->family), "need", plb_need_words(c->need), "lead",
                         plb_lead_words(c->lead), "max_over_mean", c->max_over_mean, "utilization",
                         c->utilization, "communication_s", c->communication_s, "communication",
                         c->communication);
}

PyDoc_STRVAR(records_doc, "records($self, /)\n--\n\n"
                          "(n, before, after, cost, migrations) of each candidate.");
static PyObject *selector_records(PyObject *object, PyObject *unused)
{
    (void)unused;
    const plb_selector_t *self = core_of(object);
    PyObject *out = PyList_New(self->n);
    for (int32_t i = 0; out != NULL && i < self->n; i++) {
        const plb_outcome_t *o = &self->records[i].last;
        PyObject *row = Py_BuildValue("LdddL", (long long)self->records[i].n, o->before, o->after,
                                      o->cost, (long long)o->migrations);
        if (row == NULL) {
            Py_CLEAR(out);
        } else {
            PyList_SET_ITEM(out, i, row);
        }
    }
    return out;
}

static PyMethodDef selector_methods[] = {
    {"observe", selector_observe, METH_VARARGS, observe_doc},
    {"balanced", selector_balanced, METH_VARARGS, balanced_doc},
    {"choice", selector_choice, METH_NOARGS, choice_doc},
    {"records", selector_records, METH_NOARGS, records_doc},
    {0},
};

PyDoc_STRVAR(selector_doc,
             "Selector(candidates, alpha, beta, params)\n--\n\n"
             "Which strategy to balance with: a state machine that is told of iterations and\n"
             "balancings.  candidates: a list of (refinement, looks_at); params: one value for\n"
             "each of selection().  Use pylb.Selector.");
static PyType_Slot selector_slots[] = {
    {Py_tp_doc, (void *)selector_doc},
    {Py_tp_new, selector_new},
    {Py_tp_dealloc, selector_dealloc},
    {Py_tp_methods, selector_methods},
    {0, NULL},
};

static PyType_Spec selector_spec = {
    .name = "pylb._core.Selector",
    .basicsize = sizeof(selector_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = selector_slots,
};

PyDoc_STRVAR(selection_doc, "selection()\n--\n\nThe parameters of the strategy selection.");
static PyObject *selection(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return plb_py_params(plb_selection_params, PLB_N_SELECTION);
}

static PyMethodDef methods[] = {
    {"selection", selection, METH_NOARGS, selection_doc},
    {0},
};

int plb_py_add_select(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &selector_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ? -1 : 0;
}
