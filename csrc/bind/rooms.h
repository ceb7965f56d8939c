/* Functions that the files of this folder share, and what each file adds to its module. */
#pragma once

#include "bind/views.h"

/** View a pylb.Snapshot or a pylb.Trace, or any object with the same attributes, as a C struct. */
int plb_py_snapshot(plb_py_call_t *c, PyObject *object, plb_snapshot_t *out);
int plb_py_trace(plb_py_call_t *c, PyObject *object, plb_trace_t *out);

/** Get a strategy from the table by name, or make one from a callable f(snapshot), which gets a
 * pylb.Snapshot of copies, and returns a rank for each object.  `object` must exist as long as
 * `out` is used. */
int plb_py_strategy(PyObject *object, plb_strategy_t *out);

/** Read a rank's contribution to the statistics from a tuple: kind, iteration, arguments, failed,
 *  n_objects, loads (array), idle, messages, message_bytes, time, cost, n_changed, n_rebalanced,
 *  messages_open, background. */
int plb_py_sample(PyObject *sample, int rank, plb_stats_t *out);

/** Return a record of statistics as a tuple: the fields of PLB_STATS in order, then whether
 * PLB_STATS_MIXED is set. */
PyObject *plb_py_stats(const plb_stats_t *record);

/** Return the C struct of a pylb.Trigger or of a pylb._core.Decider. */
plb_trigger_t *plb_py_trigger(PyObject *object);
plb_decider_t *plb_py_decider(PyObject *object);

int plb_py_clock(const char *name, plb_clock_t *out);

/** Return the C struct of a pylb._core.Keys. */
const plb_keys_t *plb_py_keys(PyObject *object);

/** Return the reductions in `capsule`, whose name is PLB_PY_REDUCTION.  If it is None, set up
 * `alone` for a single rank and up to `depth` reductions at a time, and return it. */
#define PLB_PY_REDUCTION "pylb.reduction"
const plb_reduction_t *plb_py_reduction(plb_py_call_t *c, PyObject *capsule,
                                        plb_reduction_t *alone, int depth);

/** End the time interval that the loop over a pylb._core.Recorder is measuring now, and add its
 * length to the load of the object that is being measured. */
void plb_py_recorder_cut(PyObject *recorder);

/** Return how many rows a table of estimates of n objects has: PLB_ESTIMATE_HERE if its size fits,
 * else PLB_ESTIMATE_ROWS; then the caller must check the size. */
int64_t plb_py_estimate_rows(PyObject *table, int64_t n);

/* X(name): the files that make up pylb._core, and those that make up pylb._mpi.  Each file defines
 * a plb_py_room_t with the name plb_py_NAME. */
/* clang-format off */
#define PLB_PY_CORE_ROOMS(X)                                                                      \
    X(base) X(model) X(model_topology) X(measure) X(measure_speeds) X(comm)                       \
    X(partition) X(partition_packages) X(place) X(place_rounds)                                   \
    X(decide) X(decide_selection) X(decide_decider) X(decide_advisor)                                \
    X(run) X(run_recorder) X(run_keys) X(run_mail)                                                \
    X(replay) X(replay_optimum) X(whatif) X(whatif_path)
#define PLB_PY_MPI_ROOMS(X) X(comm_ranks) X(comm_lane) X(partition_settle)
/* clang-format on */
#define X(name) extern const plb_py_room_t plb_py_##name;
PLB_PY_CORE_ROOMS(X)
PLB_PY_MPI_ROOMS(X)
#undef X

/* Define the module pylb._NAME, with what the files of the list ROOMS add to it. */
#define PLB_PY_ROOM_OF(name) &plb_py_##name,
#define PLB_PY_ROOMS_MODULE(name, text, ROOMS)                                                    \
    static int name##_exec(PyObject *module)                                                      \
    {                                                                                             \
        static const plb_py_room_t *const rooms[] = {ROOMS(PLB_PY_ROOM_OF)};                      \
        PLB_PY_PASS(PyArray_ImportNumPyAPI() < 0);                                                \
        for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {                               \
            PLB_PY_PASS(plb_py_add(module, rooms[i]));                                            \
        }                                                                                         \
        return 0;                                                                                 \
    }                                                                                             \
    PLB_PY_MODULE(name, text, name##_exec)
