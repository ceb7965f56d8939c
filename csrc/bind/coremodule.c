/* pylb._core: the C core without MPI.  It is always there; the other modules may be absent. */
#define PLB_PY_MAIN
#include "bind/views.h"

/* X(name): the files that make up the module.  Each defines a plb_py_room_t, plb_py_NAME. */
/* clang-format off */
#define ROOMS(X)                                                                                  \
    X(base) X(model) X(measure) X(comm) X(partition) X(place) X(decide) X(run) X(run_mail)        \
    X(replay) X(whatif)
/* clang-format on */
#define X(name) extern const plb_py_room_t plb_py_##name;
ROOMS(X)
#undef X

static int core_exec(PyObject *module)
{
    PLB_PASS(PyArray_ImportNumPyAPI());
#define X(name) PLB_PASS(plb_py_add(module, &plb_py_##name));
    ROOMS(X)
#undef X
    return 0;
}

PLB_PY_MODULE(_core, "The C core of pylb without MPI.", core_exec)
