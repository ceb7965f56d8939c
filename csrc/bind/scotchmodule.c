/* The module pylb._scotch. */
#include "bind/library.h"

static int scotch_exec(PyObject *module)
{
    return plb_py_add_library(module, &plb_scotch);
}

PyMODINIT_FUNC PyInit__scotch(void);
PyMODINIT_FUNC PyInit__scotch(void)
{
    return plb_py_module("pylb._scotch", "Scotch for pylb.", scotch_exec);
}
