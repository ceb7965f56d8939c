/* MPI communicators from Python: of any version of mpi4py (not by its C interface), or others. */
#pragma once

#include "bind/views.h"
#include "comm/comm.h"

/** Get the handle of `object`, from its method py2f(), else from its attribute `handle`.  The text
 * "world" is MPI_COMM_WORLD, for programs without such an object. */
static inline int plb_py_mpi_comm(PyObject *object, MPI_Comm *out)
{
    if (PyUnicode_Check(object)) {
        *out = MPI_COMM_WORLD;
        return 0;
    }
    PyObject *number = PyObject_CallMethod(object, "py2f", NULL);
    const bool fortran = number != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError);
    if (!fortran) {
        PyErr_Clear();
        number = PyObject_GetAttrString(object, "handle");
    }
    const long long value = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    PLB_PASS(PyErr_Occurred() != NULL);
    *out = fortran ? MPI_Comm_f2c((MPI_Fint)value) : (MPI_Comm)(intptr_t)value;
    return 0;
}
