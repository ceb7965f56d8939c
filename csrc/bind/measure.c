/* Room measure: estimates of loads, and the statistics of an iteration. */
#include <math.h>

#include "bind/convert.h"
#include "bind/rooms.h"

PLB_PY_FN(
    estimate, "loads:f8 ... table:f8!",
    "Update the table [ESTIMATE_ROWS, n] in place with loads[n], the loads of one iteration.\n"
    "Rows 0-3: estimated load, number of iterations, two figures of the estimator's state.\n"
    "Rows 4-7: the same four, but only from iterations on the present rank.  Row 8: a load\n"
    "that may be a spike, or 0.")
{
    const double *loads;
    double *table;
    int64_t n = -1;
    PLB_PY_TRY(plb_py_parse(c, &loads, &n));
    int64_t size = PLB_ESTIMATE_ROWS * n;
    PLB_PY_TRY(plb_py_parse(c, &table, &size));
    plb_estimate_update(loads, n, table);
    Py_RETURN_NONE;
}

/* ---- the statistics of an iteration --------------------------------------------------------- */

PLB_PY_FN(stats, "samples:L",
          "Merge the samples of ranks 0, 1, ... (a list) into one record, as the steps of\n"
          "pylb._mpi do, and return it.")
{
    plb_stats_t all, record;
    PyObject *samples;
    PLB_PY_TRY(plb_py_parse(c, &samples));
    PLB_PY_RAISE_IF(PyList_GET_SIZE(samples) == 0, PyExc_ValueError,
                    "samples: expected one or more");
    for (Py_ssize_t rank = 0; rank < PyList_GET_SIZE(samples); rank++) {
        PLB_PY_TRY(plb_py_sample(PyList_GET_ITEM(samples, rank), (int)rank, &record));
        if (rank == 0) {
            all = record;
        } else {
            plb_stats_merge(&all, &record);
        }
    }
    return plb_py_stats(&all);
}

PLB_PY_FN0(stats_table, "Return (name, unit, help) of every field of a record, in order.")
{
#define X(name, type, rule, unit, help) {#name, unit, help},
    static const plb_py_help_row_t rows[] = {PLB_STATS(X)};
#undef X
    return plb_py_help(rows, sizeof rows / sizeof *rows);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, estimate, stats, stats_table);

static int constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ESTIMATE_ROWS", PLB_ESTIMATE_ROWS) ||
           PyModule_AddIntConstant(module, "ESTIMATE_HERE", PLB_ESTIMATE_HERE) ||
           PyModule_AddIntConstant(module, "STATS_BYTES", sizeof(plb_stats_t));
}

const plb_py_room_t plb_py_measure = {methods, {NULL}, constants};
