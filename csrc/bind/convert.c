/* C structs as Python objects, from tables of their fields. */
#include "bind/views.h"

static PyObject *value_of(const plb_py_field_t *field, const void *from)
{
    const void *at = (const char *)from + field->offset;
    switch (field->kind) {
    case 'd':
        return PyFloat_FromDouble(*(const double *)at);
    case 'l':
        return PyLong_FromLongLong(*(const int64_t *)at);
    case 'i':
        return PyLong_FromLong(*(const int32_t *)at);
    case 'u':
        return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case 'p':
        return PyBool_FromLong(*(const bool *)at);
    case 'o':
        return Py_NewRef(*(PyObject *const *)at);
    case 'x':
        return PyFloat_FromDouble(plb_exact_value(at));
    default:
        return PyUnicode_FromString(*(const char *const *)at);
    }
}

int plb_py_put(PyObject *dict, const char *name, PyObject *value)
{
    const int failed = value == NULL || PyDict_SetItemString(dict, name, value) != 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static const char *name_of(const plb_py_field_t *field)
{
    const char *dot = strrchr(field->name, '.');
    return dot != NULL ? dot + 1 : field->name;
}

PyObject *plb_py_dict(const plb_py_field_t *fields, const void *from)
{
    PyObject *out = PyDict_New();
    for (const plb_py_field_t *f = fields; out != NULL && f->name != NULL; f++) {
        if (plb_py_put(out, name_of(f), value_of(f, from)) != 0) {
            Py_CLEAR(out);
        }
    }
    return out;
}

PyObject *plb_py_as_tuple(PyObject *list)
{
    PyObject *out = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return out;
}

void plb_py_append(PyObject **list, PyObject *value)
{
    if (*list != NULL && (value == NULL || PyList_Append(*list, value) != 0)) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(value);
}

PyObject *plb_py_tuple(const plb_py_field_t *fields, const void *from)
{
    PyObject *out = PyList_New(0);
    for (const plb_py_field_t *f = fields; out != NULL && f->name != NULL; f++) {
        plb_py_append(&out, value_of(f, from));
    }
    return plb_py_as_tuple(out);
}

PyObject *plb_py_rows(const plb_py_field_t *fields, const void *from, int64_t n, size_t size)
{
    PyObject *out = PyList_New(0);
    for (int64_t i = 0; out != NULL && i < n; i++) {
        plb_py_append(&out, plb_py_tuple(fields, (const char *)from + (size_t)i * size));
    }
    return out;
}

int plb_py_fill(plb_py_call_t *c, const plb_py_field_t *fields, PyObject *values, void *to)
{
    enum { MOST = 32 };
    plb_py_arg_t args[MOST + 1] = {{0}};
    double sums[MOST]; /* fields of type plb_exact_t: the values to add to them */
    char spec[32 * MOST] = "";
    Py_ssize_t n = 0;
    for (; fields[n].name != NULL && n < MOST; n++) {
        void *at = (char *)to + fields[n].offset;
        args[n] = fields[n].kind == 'x' ? (plb_py_arg_t)PLB_ONE(&sums[n])
                                        : (plb_py_arg_t){fields[n].kind, at, NULL};
        strncat(strcat(spec, n > 0 ? " " : ""), name_of(&fields[n]), 30);
    }
    PLB_PASS(plb_py_refuse(!PyTuple_Check(values) || PyTuple_GET_SIZE(values) != n,
                           PyExc_ValueError, "values: expected a tuple of %zd items", n));
    PLB_PASS(plb_py_items(c, values, spec, args));
    for (Py_ssize_t i = 0; i < n; i++) {
        if (fields[i].kind == 'x') {
            plb_exact_add((void *)((char *)to + fields[i].offset), sums[i]);
        }
    }
    return 0;
}

PyObject *plb_py_names(const char *const *names, size_t n)
{
    PyObject *out = PyList_New(0);
    for (size_t i = 0; out != NULL && i < n; i++) {
        plb_py_append(&out, PyUnicode_FromString(names[i]));
    }
    return plb_py_as_tuple(out);
}

PyObject *plb_py_params(const plb_param_t *params, int n)
{
    static const plb_py_field_t fields[] = {PLB_PY_FIELD(plb_param_t, name),
                                            PLB_PY_FIELD(plb_param_t, fallback),
                                            PLB_PY_FIELD(plb_param_t, least),
                                            PLB_PY_FIELD(plb_param_t, most),
                                            PLB_PY_FIELD(plb_param_t, unit),
                                            PLB_PY_FIELD(plb_param_t, help),
                                            {0}};
    return plb_py_as_tuple(plb_py_rows(fields, params, n, sizeof *params));
}

PyObject *plb_py_metrics(const plb_metrics_t *metrics)
{
#define X(name, unit, help) PLB_PY_FIELD(plb_metrics_t, name),
    static const plb_py_field_t fields[] = {PLB_METRICS(X){0}};
#undef X
    return plb_py_dict(fields, metrics);
}
