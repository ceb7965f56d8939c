/* Python binding of csrc/measure: the statistics of an iteration. */
#include "bind/convert.h"
#include "bind/rooms.h"

PLB_PY_DEF(fn, stats, "samples:L",
           "Merge the samples of ranks 0, 1, ... (a list) into one record, as pylb._mpi does.")
{
    plb_stats_t all, record;
    PyObject *samples;
    PLB_PASS(PLB_READ(c, PLB_ONE(&samples)));
    PLB_PASS(plb_py_refuse(PyList_GET_SIZE(samples) == 0, PyExc_ValueError,
                           "samples: expected one or more"));
    for (Py_ssize_t rank = 0; rank < PyList_GET_SIZE(samples); rank++) {
        PLB_PASS(plb_py_sample(PyList_GET_ITEM(samples, rank), (int)rank, &record));
        if (rank == 0) {
            all = record;
        } else {
            plb_stats_merge(&all, &record);
        }
    }
    return plb_py_answer(c, plb_py_stats(&all));
}

static const plb_py_def_t *const methods[] = {&fn_stats, NULL};

static int constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ESTIMATE_ROWS", PLB_ESTIMATE_ROWS) ||
           PyModule_AddIntConstant(module, "ESTIMATE_HERE", PLB_ESTIMATE_HERE) ||
           PyModule_AddIntConstant(module, "STATS_BYTES", sizeof(plb_stats_t));
}

const plb_py_room_t plb_py_measure = {methods, {NULL}, constants};
