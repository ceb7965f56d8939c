/* Copies the data of messages between objects, and counts their bytes. */
#include "bind/wire.h"

bool plb_is_constant(PyObject *data)
{
    return PyFloat_CheckExact(data) || PyLong_CheckExact(data) || data == Py_None ||
           PyUnicode_CheckExact(data) || PyBytes_CheckExact(data) || PyBool_Check(data) ||
           PyComplex_CheckExact(data);
}

bool plb_is_numbers(PyObject *data)
{
    return PyArray_CheckExact(data) && !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)data));
}

PyObject *plb_own_copy(PyObject *data, PyObject *freeze)
{
    if (plb_is_constant(data)) {
        return Py_NewRef(data);
    }
    PyArrayObject *a = (PyArrayObject *)data;
    if (plb_is_numbers(data)) {
        /* Keep the order of the entries in memory (C or Fortran), as pickling does.  So sums over
         * the array do not depend on whether it was sent or copied. */
        const bool fortran = PyArray_IS_F_CONTIGUOUS(a) && !PyArray_IS_C_CONTIGUOUS(a);
        return PyArray_NewCopy(a, fortran ? NPY_FORTRANORDER : NPY_CORDER);
    }
    return PyObject_CallOneArg(freeze, data);
}

int64_t plb_bytes_of(PyObject *data)
{
    if (PyArray_CheckExact(data)) {
        return PyArray_NBYTES((PyArrayObject *)data);
    }
    if (PyBytes_Check(data)) {
        return PyBytes_GET_SIZE(data);
    }
    if (PyUnicode_Check(data)) {
        return PyUnicode_GET_LENGTH(data);
    }
    if (PyFloat_CheckExact(data) || PyLong_CheckExact(data)) {
        return 8;
    }
    PyObject *nbytes = PyObject_GetAttrString(data, "nbytes");
    const int64_t bytes = nbytes != NULL ? PyLong_AsLongLong(nbytes) : 8;
    Py_XDECREF(nbytes);
    const bool failed = PyErr_Occurred() != NULL;
    if (failed && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt(); /* raised again, outside of the user's property */
    }
    PyErr_Clear();
    const int64_t most = INT64_C(1) << 53; /* sums of more could overflow */
    return failed || bytes < 0 || bytes > most ? 8 : bytes;
}
