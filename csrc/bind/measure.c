/* Room measure: estimates of loads, the statistics of an iteration, speeds that are learned. */
#include <math.h>

#include "bind/convert.h"
#include "bind/rooms.h"

PLB_PY_FN(estimate,
          "estimate(loads, table, /)\n--\n\n"
          "Enter the loads[n] of a pass into the table[ESTIMATE_ROWS, n] of what is known of the\n"
          "objects, in place: estimated load, passes, two rows of the estimator's own, the same\n"
          "four since the object came to its rank, and its load in a pass that may be a spike.")
{
    const double *loads;
    PyObject *object;
    int64_t n = -1;
    if (plb_py_parse(c, "loads:f8 table:O", &loads, &n, &object) != 0) {
        return NULL;
    }
    double *table = plb_py_in_place(object, "table", NPY_FLOAT64, PLB_ESTIMATE_ROWS * n);
    if (table == NULL) {
        return NULL;
    }
    plb_estimate_update(loads, n, table);
    Py_RETURN_NONE;
}

PLB_PY_FN(end_pass, "end_pass(loads, table, window, /)\n--\n\n"
                    "Like estimate(); then add the loads to window[n] and set them to zero.")
{
    PyObject *object[3];
    if (plb_py_parse(c, "loads:O table:O window:O", &object[0], &object[1], &object[2]) != 0) {
        return NULL;
    }
    const int64_t n =
        PyArray_Check(object[0]) ? PyArray_SIZE((PyArrayObject *)object[0]) : PLB_ESTIMATE_ROWS;
    double *loads = plb_py_in_place(object[0], "loads", NPY_FLOAT64, n);
    double *table = plb_py_in_place(object[1], "table", NPY_FLOAT64, PLB_ESTIMATE_ROWS * n);
    double *window = plb_py_in_place(object[2], "window", NPY_FLOAT64, n);
    if (loads == NULL || table == NULL || window == NULL) {
        return NULL;
    }
    plb_estimate_update(loads, n, table);
    for (int64_t i = 0; i < n; i++) {
        window[i] += loads[i];
        loads[i] = 0.0;
    }
    Py_RETURN_NONE;
}

/* ---- the statistics of an iteration ----------------------------------------------------------
 */

PLB_PY_FN1(stats, "stats(samples, /)\n--\n\n"
                  "The merged record of the samples of ranks 0, 1, ... (a list), as\n"
                  "pylb._mpi's steps return it.")
{
    plb_stats_t all, record;
    if (!PyList_Check(arg) || PyList_GET_SIZE(arg) == 0) {
        return PyErr_Format(PyExc_ValueError, "samples: expected a list of one or more");
    }
    for (Py_ssize_t rank = 0; rank < PyList_GET_SIZE(arg); rank++) {
        if (plb_py_sample(PyList_GET_ITEM(arg, rank), (int)rank, &record) != 0) {
            return NULL;
        }
        if (rank == 0) {
            all = record;
        } else {
            plb_stats_merge(&all, &record);
        }
    }
    return plb_py_stats(&all);
}

PLB_PY_FN0(stats_table,
           "stats_table()\n--\n\n(name, unit, help) of every field of a record, in order.")
{
#define X(name, type, rule, unit, help) {#name, unit, help},
    static const plb_py_help_row_t rows[] = {PLB_STATS(X)};
#undef X
    return plb_py_help(rows, sizeof rows / sizeof *rows);
}

static PyMethodDef methods[] = {
    PLB_PY_ENTRY(fn, estimate),
    PLB_PY_ENTRY(fn, end_pass),
    PLB_PY_ENTRY(fn, stats),
    PLB_PY_ENTRY(fn, stats_table),
    {0},
};

static int constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ESTIMATE_ROWS", PLB_ESTIMATE_ROWS) ||
           PyModule_AddIntConstant(module, "STATS_BYTES", sizeof(plb_stats_t));
}

const plb_py_room_t plb_py_measure = {methods, {NULL}, constants};
