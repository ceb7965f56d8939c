/* Turns error codes of the C core into exceptions: classes of pylb.errors or of Python. */
#include "bind/views.h"

#include <stdarg.h>

static const char *class_of(int code)
{
    switch (code) {
#define X(name, number, class, help)                                                              \
    case number:                                                                                  \
        return class;
        PLB_ERRORS(X)
#undef X
    default:
        return "SystemError";
    }
}

PyObject *plb_py_raise(int code, const plb_err_t *err)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    const char *name = class_of(code);
    PyObject *module = PyImport_ImportModule("pylb.errors");
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
    if (module != NULL && type == NULL) {
        PyErr_Clear();
        type = PyMapping_GetItemString(PyEval_GetBuiltins(), name);
    }
    if (type != NULL) {
        PyErr_SetString(type, err->text);
    }
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
}

int plb_py_fail(int code, const char *format, ...)
{
    plb_err_t err;
    va_list values;
    va_start(values, format);
    vsnprintf(err.text, sizeof err.text, format, values);
    va_end(values);
    plb_py_raise(code, &err);
    return -1;
}

int plb_py_refuse(bool wrong, PyObject *type, const char *format, ...)
{
    if (wrong) {
        va_list values;
        va_start(values, format);
        PyErr_FormatV(type, format, values);
        va_end(values);
    }
    return wrong ? -1 : 0;
}
