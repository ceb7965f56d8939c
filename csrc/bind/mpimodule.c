/* pylb._mpi: what needs MPI, with mpi4py's communicators. */
#define PLB_PY_MAIN
#include "bind/rooms.h"

PLB_PY_ROOMS_MODULE(mpi, "Collective steps over MPI.", PLB_PY_MPI_ROOMS)
