/* Room partition: what an order is worth. */
#include "bind/views.h"

PyDoc_STRVAR(fill_doc, "fill(start, to, perm, /)\n--\n\n"
                       "Entries of each column of the Cholesky factor in the order of perm.");
static PyObject *fill(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *to, *perm, *out = NULL;
    plb_py_held_t held = {0};
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "OOO", &start, &to, &perm)) {
        return NULL;
    }
    PyArrayObject *a = plb_py_hold(&held, start, NPY_INT64, 1);
    PyArrayObject *b = a ? plb_py_hold(&held, to, NPY_INT32, 1) : NULL;
    PyArrayObject *c = b ? plb_py_hold(&held, perm, NPY_INT32, 1) : NULL;
    npy_intp n = c ? PyArray_SIZE(c) : 0;
    const int64_t *at = c ? PyArray_DATA(a) : NULL;
    const int32_t *end = c ? PyArray_DATA(b) : NULL;
    int ok = c != NULL && PyArray_SIZE(a) == n + 1 && at[0] == 0 && at[n] == PyArray_SIZE(b) &&
             n < INT32_MAX;
    for (npy_intp v = 0; ok && v < n; v++) {
        ok = at[v] <= at[v + 1];
    }
    for (npy_intp e = 0; ok && e < PyArray_SIZE(b); e++) {
        ok = end[e] >= 0 && end[e] < n;
    }
    if (ok && (out = PyArray_SimpleNew(1, &n, NPY_INT64)) != NULL) {
        int ret;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_cholesky_fill((int32_t)n, at, end, PyArray_DATA(c), PyArray_DATA((PyArrayObject *)out),
                       &err);
        Py_END_ALLOW_THREADS;
        if (ret != PLB_OK) {
            Py_CLEAR(out);
            plb_py_raise(ret, &err);
        }
    } else if (!ok && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "start, to, perm: expected rows of a graph, and a place "
                                          "for each vertex");
    }
    plb_py_release(&held);
    return out;
}

static PyMethodDef methods[] = {
    {"fill", fill, METH_VARARGS, fill_doc},
    {0},
};

int plb_py_add_fill(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
