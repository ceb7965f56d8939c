/* pylb._core: the C core without MPI; imports anywhere. */
#define PLB_PY_MAIN
#include "bind/rooms.h"

PLB_PY_ROOMS_MODULE(core, "The C core of pylb without MPI, room by room.", PLB_PY_CORE_ROOMS)
