/* Fills the Python module of a partitioner: its version, and a capsule for pylb._core. */
#pragma once

#include "bind/views.h"

#include "partition/libraries/partitioners.h"

static const char plb_py_partitioner_name[] = "pylb.partitioner"; /* name of the capsules */

static inline int plb_py_add_library(PyObject *module, const plb_partitioner_t *library)
{
    PyObject *capsule = PyCapsule_New((void *)library, plb_py_partitioner_name, NULL);
    const int failed = capsule == NULL ||
                       PyModule_AddStringConstant(module, "version", library->version) != 0 ||
                       PyModule_AddObjectRef(module, "partitioner", capsule) != 0;
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}
