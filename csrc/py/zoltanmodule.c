/* pylb._zoltan.  Importing it starts MPI, through mpi4py, which also ends it. */
#include "library.h"

#include <mpi.h>

/* Zoltan and mpi4py must call the same MPI. */
static int check_mpi(PyObject *mpi)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    PyObject *other = PyObject_CallMethod(mpi, "Get_library_version", NULL);
    const char *theirs = other ? PyUnicode_AsUTF8(other) : NULL;
    if (theirs != NULL && strcmp(theirs, text) != 0) {
        PyErr_Format(PyExc_ImportError, "Zoltan is linked with %.60s, mpi4py with %.60s", text,
                     theirs);
        theirs = NULL;
    }
    Py_XDECREF(other);
    return theirs == NULL ? -1 : 0;
}

static int zoltan_exec(PyObject *module)
{
    PyObject *mpi = PyImport_ImportModule("mpi4py.MPI");
    const int ret = mpi == NULL || check_mpi(mpi) != 0 ? -1 : 0;
    Py_XDECREF(mpi);
    return ret == 0 ? plb_py_add_library(module, &plb_zoltan) : -1;
}

PLB_PY_LIBRARY_MODULE(zoltan, "Zoltan for pylb.", zoltan_exec)
