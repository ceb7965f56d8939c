/* Room explore: the simulation of the consensus protocol. */
#include "bind/views.h"

#include "replay/protocol.h"

#define number(x) _Generic((x), int64_t : PyLong_FromLongLong, double : PyFloat_FromDouble)(x)

PyDoc_STRVAR(params_doc, "protocol_params()\n--\n\n"
                         "(name, default, unit, help) of every parameter, in order.");
static PyObject *params(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *out = PyList_New(0);
#define X(name, type, value, unit, help)                                                          \
    if (out != NULL) {                                                                            \
        PyObject *row = Py_BuildValue("sNss", #name, number((type)(value)), unit, help);          \
        if (row == NULL || PyList_Append(out, row) != 0) {                                        \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(row);                                                                          \
    }
    PLB_PROTOCOL_PARAMS(X)
#undef X
    return out;
}

static int64_t whole_of(PyObject *value)
{
    return PyLong_AsLongLong(value);
}

static double real_of(PyObject *value)
{
    return PyFloat_AsDouble(value);
}

/* 0, or -1 with an exception. */
static int view(PyObject *values, plb_protocol_t *out)
{
    plb_protocol_defaults(out);
    out->tick = plb_py_tick;
    Py_ssize_t i = 0;
#define X(name, type, value, unit, help)                                                          \
    out->name = _Generic(out->name, int64_t                                                       \
                         : whole_of, double                                                       \
                         : real_of)(PyTuple_GET_ITEM(values, i++));                               \
    if (PyErr_Occurred()) {                                                                       \
        return -1;                                                                                \
    }
    PLB_PROTOCOL_PARAMS(X)
#undef X
    return 0;
}

static PyObject *decisions(const plb_protocol_result_t *r)
{
    PyObject *out = PyList_New((Py_ssize_t)r->n_decisions);
    for (int64_t i = 0; out != NULL && i < r->n_decisions; i++) {
        const plb_protocol_decision_t *d = &r->decision[i];
        PyObject *row = Py_BuildValue("LLLddd", (long long)d->asked, (long long)d->tentative,
                                      (long long)d->final, d->root, d->known, d->balanced);
        if (row == NULL) {
            Py_CLEAR(out);
            break;
        }
        PyList_SET_ITEM(out, (Py_ssize_t)i, row);
    }
    return out;
}

static PyObject *figures(const plb_protocol_result_t *r)
{
    PyObject *out = PyDict_New();
#define X(name, type, unit, help)                                                                 \
    if (out != NULL) {                                                                            \
        PyObject *value = number(r->name);                                                        \
        if (value == NULL || PyDict_SetItemString(out, #name, value) != 0) {                      \
            Py_CLEAR(out);                                                                        \
        }                                                                                         \
        Py_XDECREF(value);                                                                        \
    }
    PLB_PROTOCOL_RESULTS(X)
#undef X
    return out;
}

PyDoc_STRVAR(protocol_doc,
             "protocol(values, /)\n--\n\n"
             "Simulate: values is a tuple of the parameters, in order.  Answers the\n"
             "results by name, and (asked, tentative, final, root, known, balanced)\n"
             "of each decision.");
static PyObject *protocol(PyObject *module, PyObject *values)
{
    (void)module;
    plb_protocol_t in;
    plb_protocol_result_t out;
    plb_err_t err = {0, ""};
    Py_ssize_t n = 0;
#define X(name, type, value, unit, help) n++;
    PLB_PROTOCOL_PARAMS(X)
#undef X
    if (!PyTuple_Check(values) || PyTuple_GET_SIZE(values) != n) {
        return PyErr_Format(PyExc_ValueError, "values: expected a tuple of %zd", n);
    }
    if (view(values, &in) != 0) {
        return NULL;
    }
    PyThreadState *state = PyEval_SaveThread();
    in.tick_arg = &state;
    const int ret = plb_protocol_run(&in, &out, &err);
    PyEval_RestoreThread(state);
    PyObject *answer = ret == PLB_OK ? Py_BuildValue("NN", figures(&out), decisions(&out))
                                     : plb_py_raise(ret, &err);
    plb_protocol_result_free(&out);
    return answer;
}

static PyMethodDef methods[] = {
    {"protocol_params", params, METH_NOARGS, params_doc},
    {"protocol", protocol, METH_O, protocol_doc},
    {0},
};

int plb_py_add_protocol(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
