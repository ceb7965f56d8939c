/* pylb._mpi: what needs MPI, with mpi4py's communicators. */
#define PLB_PY_MAIN
#include "bind/rooms.h"

static int mpi_exec(PyObject *module)
{
    return PyArray_ImportNumPyAPI() < 0 || plb_py_add(module, &plb_py_comm_ranks) != 0 ||
                   plb_py_add(module, &plb_py_comm_lane) != 0
               ? -1
               : plb_py_add(module, &plb_py_partition_settle);
}

PLB_PY_MODULE(mpi, "Collective steps over MPI.", mpi_exec)
