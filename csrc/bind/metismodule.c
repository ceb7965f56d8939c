/* The module pylb._metis. */
#include "bind/library.h"

static int metis_exec(PyObject *module)
{
    return plb_py_add_library(module, &plb_metis);
}

PyMODINIT_FUNC PyInit__metis(void);
PyMODINIT_FUNC PyInit__metis(void)
{
    return plb_py_module("pylb._metis", "METIS for pylb.", metis_exec);
}
