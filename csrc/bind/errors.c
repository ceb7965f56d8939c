/* Codes of the core to the exceptions of pylb.errors. */
#include "bind/views.h"

PyObject *plb_py_raise(int code, const plb_err_t *err)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("pylb.errors");
    PyObject *table = module ? PyObject_GetAttrString(module, "BY_CODE") : NULL;
    PyObject *key = table ? PyLong_FromLong(code) : NULL;
    PyObject *type = key ? PyObject_GetItem(table, key) : NULL;
    if (type != NULL) {
        PyErr_SetString(type, err->text);
    }
    Py_XDECREF(type);
    Py_XDECREF(key);
    Py_XDECREF(table);
    Py_XDECREF(module);
    return NULL;
}
