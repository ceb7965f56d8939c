/* Functions that the files of this folder share, and what each file adds to its module. */
#pragma once

#include "bind/views.h"

/** View a pylb.Snapshot, or any object with the same attributes, as a C struct. */
int plb_py_snapshot(plb_py_call_t *c, PyObject *object, plb_snapshot_t *out);

/** Get a strategy from the table by name, or make one from a callable f(snapshot), which gets a
 * pylb.Snapshot of copies, and returns a rank for each object.  `object` must exist as long as
 * `out` is used. */
int plb_py_strategy(PyObject *object, plb_strategy_t *out);

/** Read strategies from a tuple of (what, name, refinement, looks_at, params); what: a name in the
 * table of strategies, or a callable.  The result lives as long as the call, and borrows the
 * names. */
plb_candidate_strategy_t *plb_py_candidates(plb_py_call_t *c, PyObject *rows);

/** Read a rank's contribution to the statistics from a tuple: kind, iteration, arguments, failed,
 *  n_objects, loads (array), idle, messages, message_bytes, time, cost, n_changed, n_rebalanced,
 *  messages_open, background.  The call then holds no arrays. */
int plb_py_sample(plb_py_call_t *c, PyObject *sample, int rank, plb_stats_t *out);

/** Return a record of statistics as a tuple: the fields of PLB_STATS in order, then whether
 * PLB_STATS_MIXED is set.  plb_py_record: read such a tuple, which has rounded the exact sums. */
PyObject *plb_py_stats(const plb_stats_t *record);
int plb_py_record(plb_py_call_t *c, PyObject *tuple, plb_stats_t *out);

/** Return the C struct of a pylb.Trigger or of a pylb._core.Decider. */
plb_trigger_t *plb_py_trigger(PyObject *object);
plb_decider_t *plb_py_decider(PyObject *object);

int plb_py_clock(const char *name, plb_clock_t *out);

/** Return the C struct of a pylb._core.Keys. */
const plb_keys_t *plb_py_keys(PyObject *object);

/** Return the reductions in `capsule`.  If it is None, set up `alone` for a single rank and up to
 * `depth` reductions at a time, and return it. */
static const char plb_py_reduction_name[] = "pylb.reduction"; /* of the capsules */
const plb_reduction_t *plb_py_reduction(plb_py_call_t *c, PyObject *capsule,
                                        plb_reduction_t *alone, int depth);
