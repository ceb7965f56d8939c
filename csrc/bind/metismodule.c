/* The module pylb._metis. */
#include "bind/library.h"

static int metis_exec(PyObject *module)
{
    return plb_py_add_library(module, &plb_metis);
}

PLB_PY_MODULE(_metis, "METIS for pylb.", metis_exec)
