/* pylb._mpi: what needs MPI, with mpi4py's communicators. */
#define PLB_PY_MAIN
#include "bind/views.h"

extern const plb_py_room_t plb_py_comm_ranks;

static int mpi_exec(PyObject *module)
{
    PLB_PASS(PyArray_ImportNumPyAPI());
    return plb_py_add(module, &plb_py_comm_ranks);
}

PyMODINIT_FUNC PyInit__mpi(void);
PyMODINIT_FUNC PyInit__mpi(void)
{
    return plb_py_module("pylb._mpi", "Collective steps over MPI.", mpi_exec);
}
