/* A Python module of one partitioner: its version, and a capsule that pylb._core takes. */
#ifndef PLB_BIND_LIBRARY_H
#define PLB_BIND_LIBRARY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "partition/libraries/partitioners.h"

#define PLB_PY_PARTITIONER "pylb.partitioner" /* the capsules' name */

static inline int plb_py_add_library(PyObject *module, const plb_partitioner_t *library)
{
    PyObject *capsule = PyCapsule_New((void *)library, PLB_PY_PARTITIONER, NULL);
    const int failed = capsule == NULL ||
                       PyModule_AddStringConstant(module, "version", library->version) != 0 ||
                       PyModule_AddObjectRef(module, "partitioner", capsule) != 0;
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}

#ifdef Py_mod_multiple_interpreters
#define PLB_PY_ONE_INTERPRETER                                                                    \
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#else
#define PLB_PY_ONE_INTERPRETER
#endif

/* The whole module pylb._NAME, which `exec` fills. */
#define PLB_PY_LIBRARY_MODULE(name, text, exec)                                                   \
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, exec}, PLB_PY_ONE_INTERPRETER{0, NULL}};     \
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "pylb._" #name,             \
                                     .m_doc = (text), .m_slots = slots};                          \
    PyMODINIT_FUNC PyInit__##name(void);                                                          \
    PyMODINIT_FUNC PyInit__##name(void)                                                           \
    {                                                                                             \
        return PyModuleDef_Init(&definition);                                                     \
    }

#endif
