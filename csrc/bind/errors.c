/* Turns error codes of the C core into exceptions: classes of pylb.errors or of Python. */
#include "bind/views.h"

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
    PLB_PY_TRY(PyErr_Occurred());
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
