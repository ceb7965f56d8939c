/* pylb._core: the C core without MPI.  It is always there; the other modules may be absent. */
#define PLB_PY_MAIN
#include "bind/rooms.h"

PLB_PY_ROOMS_MODULE(core, "The C core of pylb without MPI.", PLB_PY_CORE_ROOMS)
