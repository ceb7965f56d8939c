/* The module pylb._scotch. */
#include "bind/library.h"

static int scotch_exec(PyObject *module)
{
    return plb_py_add_library(module, &plb_scotch);
}

PLB_PY_MODULE(_scotch, "Scotch for pylb.", scotch_exec)
