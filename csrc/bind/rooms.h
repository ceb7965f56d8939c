/* Functions that the files of this folder share, and what each file adds to its module. */
#ifndef PLB_BIND_ROOMS_H
#define PLB_BIND_ROOMS_H

#include "bind/views.h"

/** View a pylb.Snapshot or a pylb.Trace, or any object with the same attributes, as a C struct. 0,
 * or -1 with an exception. */
int plb_py_snapshot(plb_py_call_t *c, PyObject *object, plb_snapshot_t *out);
int plb_py_trace(plb_py_call_t *c, PyObject *object, plb_trace_t *out);

/** Get a strategy from the table by name, or make one from a Python callable.  0, or -1 with an
 * exception.  The callable is called as f(snapshot, *params), with a pylb.Snapshot whose
 * arrays are copies, and returns a rank for each object.  `object` must exist as long as `out`
 * is used. */
int plb_py_strategy(PyObject *object, plb_strategy_t *out);

/** Read a rank's contribution to the statistics from a tuple: kind, iteration, arguments, failed,
 *  n_objects, loads (array), idle, messages, message_bytes, time, cost, n_changed, n_rebalanced,
 *  messages_open.  0, or -1 with an exception. */
int plb_py_sample(PyObject *sample, int rank, plb_stats_t *out);

/** Return a record of statistics as a tuple: the fields of PLB_STATS in order, then whether
 * PLB_STATS_MIXED is set. */
PyObject *plb_py_stats(const plb_stats_t *record);

/** The C struct of a pylb.Trigger or of a pylb._core.Decider; NULL with an exception. */
plb_trigger_t *plb_py_trigger(PyObject *object);
plb_decider_t *plb_py_decider(PyObject *object);

/** Find a clock by name; 0, or -1 with an exception. */
int plb_py_clock(const char *name, plb_clock_t *out);

/** The C struct of a pylb._core.Keys; NULL with an exception. */
const plb_keys_t *plb_py_keys(PyObject *object);

/** Name of capsules that hold a plb_reduction_t. */
#define PLB_PY_REDUCTION "pylb.reduction"

/** End the time interval that the loop over a pylb._core.Recorder is measuring now, and add it to
 * the present object. */
void plb_py_recorder_cut(PyObject *recorder);

/** Return the number of rows of a table of estimates of n objects: PLB_ESTIMATE_HERE or
 * PLB_ESTIMATE_ROWS, by its size.  The caller must check that the size is one of these. */
int64_t plb_py_estimate_rows(PyObject *table, int64_t n);

extern const plb_py_room_t plb_py_base, plb_py_model, plb_py_model_topology, plb_py_measure,
    plb_py_measure_speeds, plb_py_comm, plb_py_partition, plb_py_partition_packages, plb_py_place,
    plb_py_place_rounds, plb_py_decide, plb_py_decide_ledger, plb_py_decide_decider,
    plb_py_decide_advisor, plb_py_run, plb_py_run_recorder, plb_py_run_keys, plb_py_run_mail,
    plb_py_replay, plb_py_replay_optimum, plb_py_replay_protocol, plb_py_whatif,
    plb_py_whatif_path, plb_py_io; /* the rooms of pylb._core */
/* those of pylb._mpi */
extern const plb_py_room_t plb_py_comm_ranks, plb_py_comm_lane, plb_py_partition_settle;

#endif
