/* pylb._core: the C core without MPI; imports anywhere. */
#define PLB_PY_MAIN
#include "bind/views.h"

/* One file of this folder each, one a line. */
/* clang-format off */
static int (*const rooms[])(PyObject *) = {
    plb_py_add_base,
    plb_py_add_measure,
    plb_py_add_place,
    plb_py_add_decide,
    plb_py_add_select,
    plb_py_add_recorder,
    plb_py_add_vt,
    plb_py_add_replay,
    plb_py_add_optimum,
    plb_py_add_partition,
    plb_py_add_quality,
    plb_py_add_ledger,
    plb_py_add_decider,
    plb_py_add_rounds, plb_py_add_topology,
    plb_py_add_atsync,
    plb_py_add_mail,
    plb_py_add_machine, plb_py_add_learner,
    plb_py_add_repeats,
    plb_py_add_move,
    plb_py_add_drum,
    plb_py_add_fill,
    plb_py_add_protocol,
    plb_py_add_whatif,
    plb_py_add_path,
};
/* clang-format on */

static int core_exec(PyObject *module)
{
    if (PyArray_ImportNumPyAPI() < 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        if (rooms[i](module) != 0) {
            return -1;
        }
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, core_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pylb._core",
    .m_doc = "The C core of pylb: measure, decide, place, move, explore.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
