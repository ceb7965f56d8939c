/* pylb._core: the C core without MPI; imports anywhere. */
#define PLB_PY_MAIN
#include "bind/rooms.h"

static const plb_py_room_t *const rooms[] = {
    &plb_py_base,
    &plb_py_model,
    &plb_py_model_topology,
    &plb_py_measure,
    &plb_py_measure_speeds,
    &plb_py_comm,
    &plb_py_partition,
    &plb_py_partition_packages,
    &plb_py_place,
    &plb_py_place_rounds,
    &plb_py_decide,
    &plb_py_decide_ledger,
    &plb_py_decide_decider,
    &plb_py_decide_advisor,
    &plb_py_run,
    &plb_py_run_recorder,
    &plb_py_run_keys,
    &plb_py_run_mail,
    &plb_py_replay,
    &plb_py_replay_optimum,
    &plb_py_replay_protocol,
    &plb_py_whatif,
    &plb_py_whatif_path,
    &plb_py_io,
};

static int core_exec(PyObject *module)
{
    PLB_PY_PASS(PyArray_ImportNumPyAPI() < 0);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        PLB_PY_PASS(plb_py_add(module, rooms[i]));
    }
    return 0;
}

PLB_PY_MODULE(core, "The C core of pylb without MPI, room by room.", core_exec)
