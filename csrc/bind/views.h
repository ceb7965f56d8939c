/* The shells' common part: NumPy arrays as C views, C arrays as NumPy arrays, codes as exceptions.
 *
 * Every file of this folder includes this header first; module files define PLB_PY_MAIN before.
 */
#ifndef PLB_BIND_VIEWS_H
#define PLB_BIND_VIEWS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define PY_ARRAY_UNIQUE_SYMBOL plb_array_api
#ifndef PLB_PY_MAIN
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "plb.h"

/** Turn a failed call into the Python exception of pylb.errors; returns NULL.  An exception that
 *  is already pending (KeyboardInterrupt, a callback's own) is left alone. */
PyObject *plb_py_raise(int code, const plb_err_t *err);

/* Up to this many arrays are held while C looks at them. */
enum { PLB_PY_MAX_HELD = 32 };
typedef struct plb_py_held {
    PyArrayObject *array[PLB_PY_MAX_HELD];
    int n;
} plb_py_held_t;

/** C-contiguous, aligned view of `object` as numpy type `type` with `ndim` dimensions (0: any), a
 *  copy only where dtype or layout asks; None gives NULL without error.  The array is kept in
 *  `held` until plb_py_release.  On error NULL with an exception: test PyErr_Occurred(). */
PyArrayObject *plb_py_hold(plb_py_held_t *held, PyObject *object, int type, int ndim);
void plb_py_release(plb_py_held_t *held);

/** *data = such a view of any shape, which must have n entries (below 0: any number); None leaves
 *  *data as it is.  0, or -1 with an exception that names it. */
int plb_py_view(plb_py_held_t *held, PyObject *object, const char *name, int type, int64_t n,
                const void *data);

/* X(name, type, count): the arrays of a snapshot, for n objects with d loads each, p ranks, m
 * edges, c multicasts with `pins` receivers in all, and b shared blocks. */
#define PLB_PY_SNAPSHOT(X)                                                                        \
    X(load, NPY_FLOAT64, n *d)                                                                    \
    X(rank, NPY_INT32, n)                                                                         \
    X(key, NPY_INT64, n)                                                                          \
    X(bytes, NPY_INT64, n)                                                                        \
    X(memory, NPY_INT64, n)                                                                       \
    X(migratable, NPY_BOOL, n)                                                                    \
    X(coords, NPY_FLOAT64, n * 3)                                                                 \
    X(edge_src, NPY_INT32, m)                                                                     \
    X(edge_dst, NPY_INT32, m)                                                                     \
    X(edge_bytes, NPY_FLOAT64, m)                                                                 \
    X(edge_messages, NPY_FLOAT64, m)                                                              \
    X(multicast_src, NPY_INT32, c)                                                                \
    X(multicast_start, NPY_INT64, c + 1)                                                          \
    X(multicast_dst, NPY_INT32, pins)                                                             \
    X(multicast_bytes, NPY_FLOAT64, c)                                                            \
    X(multicast_messages, NPY_FLOAT64, c)                                                         \
    X(block, NPY_INT32, n)                                                                        \
    X(block_bytes, NPY_INT64, b)                                                                  \
    X(speed, NPY_FLOAT64, p)                                                                      \
    X(background, NPY_FLOAT64, p)                                                                 \
    X(memory_limit, NPY_INT64, p)                                                                 \
    X(node, NPY_INT32, p)

/** View a pylb.Snapshot (or any object with its attributes).  0, or -1 with an exception. */
int plb_py_snapshot(plb_py_held_t *held, PyObject *object, plb_snapshot_t *out);

/** View a pylb.Trace (or any object with its arrays as attributes).  0, or -1 with an exception.
 */
int plb_py_trace(plb_py_held_t *held, PyObject *object, plb_trace_t *out);

/** New one-dimensional array that takes over `data` (of plb_malloc), also on failure. */
PyObject *plb_py_take(void *data, npy_intp n, int type);

/** A list of str, as name, value, ...; the strings stay those of the list, the array is for
 *  PyMem_Free.  NULL with an exception. */
const char **plb_py_texts(PyObject *list);

/** A contiguous array of records of `size` bytes, borrowed; NULL with an exception. */
PyArrayObject *plb_py_records(PyObject *object, size_t size, bool writable);

/** View communicators: where each one's members begin, and the members.  0, or -1. */
int plb_py_comms(plb_py_held_t *held, PyObject *start, PyObject *member, plb_comms_t *out);

/** Every metric by name, a new dict. */
PyObject *plb_py_metrics(const plb_metrics_t *metrics);

/** For plb_opts_t: lets Ctrl-C end a long local loop.  `arg` is the PyThreadState that
 *  PyEval_SaveThread gave, by address. */
int plb_py_tick(void *arg);

/** Each file adds its functions to the module. */
int plb_py_add_base(PyObject *module);
int plb_py_add_measure(PyObject *module);
int plb_py_add_place(PyObject *module);
int plb_py_add_rounds(PyObject *module);
int plb_py_add_topology(PyObject *module);
int plb_py_add_decide(PyObject *module);
int plb_py_add_select(PyObject *module);
int plb_py_add_ledger(PyObject *module);
int plb_py_add_decider(PyObject *module);
int plb_py_add_recorder(PyObject *module);
int plb_py_add_atsync(PyObject *module);
int plb_py_add_mail(PyObject *module);
int plb_py_add_vt(PyObject *module);
int plb_py_add_replay(PyObject *module);
int plb_py_add_optimum(PyObject *module);
int plb_py_add_protocol(PyObject *module);
int plb_py_add_partition(PyObject *module);
int plb_py_add_quality(PyObject *module);
int plb_py_add_machine(PyObject *module);
int plb_py_add_learner(PyObject *module);
int plb_py_add_repeats(PyObject *module);
int plb_py_add_drum(PyObject *module);
int plb_py_add_fill(PyObject *module);
int plb_py_add_move(PyObject *module);
int plb_py_add_exchange(PyObject *module); /* of pylb._mpi */
int plb_py_add_settle(PyObject *module);   /* the same */
int plb_py_add_whatif(PyObject *module);
int plb_py_add_path(PyObject *module);

/** (name, default, least, most, unit, help) of each parameter, a new tuple. */
PyObject *plb_py_params(const plb_param_t *params, int n);

/** What a verdict rests on, by name, a new dict. */
PyObject *plb_py_figures(const plb_verdict_t *verdict);

/** The trigger inside a pylb.Trigger, or NULL with an exception. */
plb_trigger_t *plb_py_trigger(PyObject *object);

/** The decider inside a pylb._core.Decider, or NULL with an exception. */
plb_decider_t *plb_py_decider(PyObject *object);

/** Every receipt of a decider as a dict, a new list. */
PyObject *plb_py_receipts(plb_decider_t *decider);

/** Name of capsules that hold a plb_reduction_t. */
#define PLB_PY_REDUCTION "pylb.reduction"

/** What the loop over a pylb._core.Recorder has timed so far goes to its object now. */
void plb_py_recorder_cut(PyObject *recorder);

/** A strategy by name from the table, or made of a Python callable.  0, or -1 with an exception.
 *  A callable is called as f(snapshot, **params) with a pylb.Snapshot of copies and returns a rank
 *  for each object.  `object` must outlive `out`. */
int plb_py_strategy(PyObject *object, plb_strategy_t *out);

/** A rank's contribution to the statistics, a tuple: kind, iteration, arguments, failed,
 *  n_objects, loads (array), idle, messages, message_bytes, time, cost, n_changed.  0, or -1 with
 *  an exception. */
int plb_py_sample(PyObject *sample, int rank, plb_stats_t *out);

/** A record as a tuple: the fields of PLB_STATS in order, then whether it is mixed. */
PyObject *plb_py_stats(const plb_stats_t *record);

#endif
