/* Python binding of csrc/decide: the decider as a Python object. */
#include "bind/convert.h"
#include "bind/rooms.h"

typedef struct decider {
    PLB_PY_HEAD plb_decider_t core;
    PyObject *trigger, *candidates; /* owned, because `core` borrows their contents */
} decider_t;

/* ---- libraries; each is loaded when a strategy that needs it first runs ---- */

static int load(const char *library)
{
    PyObject *module = PyImport_ImportModule("pylb.partitioning.libraries");
    PyObject *done = module ? PyObject_CallMethod(module, "load", "s", library) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int run_with_library(const plb_strategy_t *self, const plb_snapshot_t *in,
                            const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    if (plb_partitioner_find(self->library) == NULL) {
        PyGILState_STATE state = PyGILState_Ensure();
        const int failed = load(self->library);
        PyGILState_Release(state);
        PLB_FAIL_IF(failed, err, PLB_ERR_CALLBACK, "%s could not be loaded", self->library);
    }
    const plb_strategy_t *whole = plb_strategy_find(self->name);
    return whole->run(whole, in, opts, out, err);
}

/* Read a candidate from (what, name, refinement, looks_at, params); what: a name in the table
 * of strategies, or a callable. */
static int candidate_of(PyObject *row, plb_py_call_t *c, plb_candidate_strategy_t *out)
{
    PyObject *what;
    const char *name;
    bool refinement;
    uint32_t looks_at;
    int64_t n = -1;
    PLB_PASS(plb_py_items(c, row, "what name refinement looks_at params",
                          PLB_TABLE(PLB_ONE(&what), PLB_ONE(&name), PLB_ONE(&refinement),
                                    PLB_ONE(&looks_at), PLB_MANY(&out->params, &n))));
    PLB_PASS(plb_py_strategy(what, &out->strategy));
    PLB_PASS(plb_py_refuse(n != out->strategy.n_params, PyExc_ValueError, "%s takes %d parameters",
                           name, out->strategy.n_params));
    if (out->strategy.library != NULL) {
        out->strategy.run = run_with_library;
    }
    out->strategy.name = name;
    out->strategy.family = refinement ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    out->strategy.looks_at = looks_at;
    return 0;
}

static int decider_init(decider_t *self, plb_py_call_t *c)
{
    plb_decider_options_t opt = {0};
    PyObject *rows, *trigger;
    int64_t n_selection = PLB_N_SELECTION, n_ledger = PLB_N_LEDGER;
    PLB_PASS(PLB_READ(c, PLB_ONE(&opt.n_ranks), PLB_ONE(&rows), PLB_ONE(&trigger),
                      PLB_ONE(&opt.selects), PLB_MANY(&opt.selection, &n_selection),
                      PLB_MANY(&opt.ledger, &n_ledger), PLB_ONE(&opt.gives_up),
                      PLB_ONE(&opt.learns), PLB_ONE(&opt.watches), PLB_ONE(&opt.network.alpha),
                      PLB_ONE(&opt.seed), PLB_ONE(&opt.keep)));
    opt.n = (int32_t)PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *candidates = plb_py_memory(c, opt.n, sizeof *candidates);
    plb_trigger_t *core = candidates ? plb_py_trigger(trigger) : NULL;
    for (int32_t i = 0; core != NULL && i < opt.n; i++) {
        PLB_PASS(candidate_of(PyTuple_GET_ITEM(rows, i), c, &candidates[i]));
    }
    PLB_PASS(core == NULL);
    opt.candidates = candidates;
    self->candidates = Py_NewRef(rows);
    self->trigger = Py_NewRef(trigger);
    return plb_decider_init(&self->core, &opt, core, &c->err);
}

static void decider_fini(decider_t *self)
{
    plb_decider_free(&self->core);
    Py_XDECREF(self->trigger);
    Py_XDECREF(self->candidates);
}

/* ---- methods for each iteration ---- */

PLB_PY_DEF(decider, network, "alpha beta",
           "Set the seconds per message and per byte, before the first iteration.")
{
    plb_network_t network;
    PLB_PASS(PLB_READ(c, PLB_ONE(&network.alpha), PLB_ONE(&network.beta)));
    return plb_decider_network(&self->core, network, &c->err);
}

PLB_PY_DEF(decider, limit, "bytes", "Set the memory limit of rank 0 in bytes; negative: none.")
{
    int64_t bytes;
    PLB_PASS(PLB_READ(c, PLB_ONE(&bytes)));
    plb_decider_limit(&self->core, bytes);
    return PLB_OK;
}

PLB_PY_DEF(
    decider, expect, "end:? cost moving=nan",
    "Set what is known before the run.  end: the number of the final iteration plus 1;\n"
    "None: unknown.  cost: expected seconds of the first LB step; moving: the part of this\n"
    "cost that migrations would take if all objects moved; nan: unknown.")
{
    int64_t end;
    double cost, moving = NAN;
    PLB_PASS(PLB_READ(c, PLB_ONE(&end), PLB_ONE(&cost), PLB_ONE(&moving)));
    return plb_decider_expect(&self->core, end, cost, moving, &c->err);
}

PLB_PY_DEF(
    decider, observe, "iteration time max mean min total utilization messages bytes",
    "Record an iteration: seconds of the slowest rank; maximum, mean, minimum and sum of the\n"
    "loads; lowest utilization; messages and bytes.  Returns whether the trigger says to\n"
    "rebalance.")
{
    plb_iteration_t it;
    PLB_PASS(PLB_READ(c, PLB_ONE(&it.iteration), PLB_ONE(&it.time), PLB_ONE(&it.max),
                      PLB_ONE(&it.mean), PLB_ONE(&it.min), PLB_ONE(&it.total),
                      PLB_ONE(&it.utilization), PLB_ONE(&it.messages), PLB_ONE(&it.bytes)));
    PLB_PASS(plb_decider_observe(&self->core, &it, &c->err));
    return plb_py_answer(c, PyBool_FromLong(self->core.trigger->verdict.balance));
}

PLB_PY_DEF(decider, see, "snapshot",
           "Record iteration 0: loads and messages of a snapshot in its present placement.")
{
    PyObject *snapshot;
    plb_snapshot_t in;
    PLB_PASS(PLB_READ(c, PLB_ONE(&snapshot)));
    PLB_PASS(plb_py_snapshot(c, snapshot, &in));
    return plb_decider_see(&self->core, &in, &c->err);
}

PLB_PY_DEF(
    decider, next, "asked may_preview",
    "Return what to do now, one of ASKS.  NOTHING: go on; JUDGE: call `judge` with the\n"
    "seconds that the most recent LB step has saved, then `next` again; PREVIEW: call\n"
    "`preview`, which computes whether a new placement would save time; BALANCE: rebalance.\n"
    "asked: whether an LB step is due; may_preview: False at the end of a loop.")
{
    bool asked, may_preview;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PASS(PLB_READ(c, PLB_ONE(&asked), PLB_ONE(&may_preview)));
    PLB_PASS(plb_decider_next(&self->core, asked, may_preview, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

PLB_PY_DEF(decider, judge, "gain",
           "Set the seconds that the most recent LB step has saved so far.")
{
    double gain;
    PLB_PASS(PLB_READ(c, PLB_ONE(&gain)));
    return plb_decider_judge(&self->core, gain, &c->err);
}

PLB_PY_DEF(decider, previewed, "gain",
           "Set the result of `preview`, on all ranks.  Returns NOTHING or BALANCE of ASKS.")
{
    double gain;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PASS(PLB_READ(c, PLB_ONE(&gain)));
    PLB_PASS(plb_decider_previewed(&self->core, gain, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

/* ---- methods for an LB step ---- */

PLB_PY_DEF(
    decider, choose, "reason=-1 n_objects=0",
    "Begin an LB step.  reason: number of its reason; -1: that of the last verdict.\n"
    "n_objects: number on all ranks; 0: unknown, then a central strategy is chosen.  Returns\n"
    "the index of the strategy, and that of a refinement that may replace it (-1: none).")
{
    int32_t reason = -1;
    int64_t n_objects = 0;
    PLB_PASS(PLB_READ(c, PLB_ONE(&reason), PLB_ONE(&n_objects)));
    PLB_PASS(plb_py_refuse(reason >= PLB_N_REASONS, PyExc_ValueError,
                           "reason is %d: expected -1 ... %d", (int)reason, PLB_N_REASONS - 1));
    plb_verdict_t why = self->core.trigger->verdict;
    why.reason = (plb_reason_t)reason;
    PLB_PASS(plb_decider_choose(&self->core, reason < 0 ? NULL : &why, n_objects, &c->err));
    return plb_py_answer(c, Py_BuildValue("ii", (int)self->core.chosen, (int)self->core.instead));
}

/* Read the first argument, the snapshot; set *n to the number of its objects. */
static int read_snapshot(plb_py_call_t *c, plb_database_t *out, int64_t *n)
{
    PyObject *snapshot;
    PLB_PASS(PLB_READ(c, PLB_ONE(&snapshot)));
    PLB_PASS(plb_py_snapshot(c, snapshot, &out->snapshot));
    *n = out->snapshot.n_objects;
    return 0;
}

static int check_keys(const plb_database_t *db)
{
    return plb_py_refuse(db->snapshot.key == NULL && db->here != NULL, PyExc_ValueError,
                         "the snapshot has no keys: expected keys, because speeds are learned");
}

enum { N_PLACING = sizeof(plb_placing_t) / sizeof(double) };

PLB_PY_DEF(
    decider, place, "snapshot ... here:@? work:@? figures speed rank drift:@?=None",
    "Place the objects; call it on the rank that has the loads.  here: mean seconds of each\n"
    "object on its present rank; work: the user's estimates; drift: growth of the loads per\n"
    "iteration; each (n,) float64 or None.  Fills figures, float64 in the order of FIGURES;\n"
    "speed, (p,) float64 (all zero: equal or unknown speeds); and rank, (n,) int32.")
{
    plb_database_t db = {.here = NULL};
    double *placing, *speed;
    int32_t *rank;
    int64_t n, n_placing = N_PLACING, p = self->core.opt.n_ranks;
    PLB_PASS(read_snapshot(c, &db, &n));
    PLB_PASS(PLB_READ(c, PLB_MANY(&db.here, &n), PLB_MANY(&db.work, &n),
                      PLB_MANY(&placing, &n_placing), PLB_MANY(&speed, &p), PLB_MANY(&rank, &n),
                      PLB_MANY(&db.drift, &n)));
    PLB_PASS(check_keys(&db));
    return PLB_PY_UNLOCKED(c, plb_decider_place(&self->core, &db, rank, speed,
                                                (plb_placing_t *)(void *)placing, &c->err));
}

PLB_PY_DEF(
    decider, preview, "snapshot ... here:@? work:@?",
    "Estimate, on the rank that has the loads, how many seconds per iteration a new placement\n"
    "would save.  Returns 0 if the ranks seem equally fast, unless a rank has changed its\n"
    "speed or the last LB step has achieved far less than it predicted.")
{
    plb_database_t db = {.here = NULL};
    double gain = 0.0;
    int64_t n;
    PLB_PASS(read_snapshot(c, &db, &n));
    PLB_PASS(PLB_READ(c, PLB_MANY(&db.here, &n), PLB_MANY(&db.work, &n)));
    PLB_PASS(check_keys(&db));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_decider_preview(&self->core, &db, &gain, &c->err)));
    return plb_py_answer(c, PyFloat_FromDouble(gain));
}

PLB_PY_DEF(
    decider, learn, "key rank here work:? speed",
    "Learn speeds from a sample of n objects; call it on the rank with the sample.  here:\n"
    "mean seconds of each object on its present rank; work: the user's estimates, or None.\n"
    "Fills speed, (p,) float64 (all zero: equal speeds).")
{
    const int64_t *key;
    const int32_t *rank;
    const double *here, *work;
    double *speed;
    int64_t n = -1, p = self->core.opt.n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n), PLB_MANY(&rank, &n), PLB_MANY(&here, &n),
                      PLB_MANY(&work, &n), PLB_MANY(&speed, &p)));
    return PLB_PY_UNLOCKED(
        c, plb_decider_learn(&self->core, n, key, rank, here, work, speed, &c->err));
}

PLB_PY_DEF(decider, placed, "figures:@ speed:@?",
           "Set the result of `place`; call it on all ranks.  figures, speed: as filled by\n"
           "`place` on the rank that has the loads; speed None: equal or unknown speeds.")
{
    const double *figures, *speed;
    int64_t n = N_PLACING, p = self->core.opt.n_ranks;
    plb_placing_t placing;
    PLB_PASS(PLB_READ(c, PLB_MANY(&figures, &n), PLB_MANY(&speed, &p)));
    memcpy(&placing, figures, sizeof placing);
    return plb_decider_placed(&self->core, &placing, speed, &c->err);
}

PLB_PY_DEF(
    decider, balanced, "migrations bytes seconds_migration cost moved given=False",
    "End the LB step.  moved: whether objects have moved.  given: True: `cost` is the whole\n"
    "cost; False: the larger of `cost` and the sum of the LB step's known times counts.")
{
    plb_step_done_t done = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&done.migrations), PLB_ONE(&done.bytes),
                      PLB_ONE(&done.seconds_migration), PLB_ONE(&done.cost), PLB_ONE(&done.moved),
                      PLB_ONE(&done.given)));
    return plb_decider_balanced(&self->core, &done, &c->err);
}

PLB_PY_DEF(decider, abandon, "",
           "Cancel the LB step, or the wait for `judge` or `previewed`, after a failure.")
{
    plb_decider_abandon(&self->core);
    return PLB_OK;
}

#define X(name) PLB_PY_FIELD(plb_receipt_t, placing.name),
#define Y(name) PLB_PY_FIELD(plb_receipt_t, name),
static const plb_py_field_t receipt_fields[] = {Y(strategy) Y(moved) PLB_PLACING(X) PLB_RECEIPT(Y)
                                                    PLB_RECEIPT_COUNTS(Y){0}};
#undef X
#undef Y

static PyObject *receipt_of(const plb_decider_t *self, const plb_receipt_t *r)
{
    static const char *const kinds[] = {"hold", "off", "balance", "speeds"};
    static const plb_py_field_t alternative[] = {
        PLB_PY_FIELD(plb_alternative_t, gain), PLB_PY_FIELD(plb_alternative_t, cost), {0}};
    static const plb_py_field_t number[] = {{"speed", 'd', 0}};
    PyObject *out = plb_py_dict(receipt_fields, r);
    PyObject *speed = PyTuple_New(r->speed == NULL ? 0 : self->opt.n_ranks);
    for (int32_t i = 0; speed != NULL && r->speed != NULL && i < self->opt.n_ranks; i++) {
        PyTuple_SET_ITEM(speed, i, plb_py_value(number, &r->speed[i]));
    }
    if (out == NULL) {
        Py_XDECREF(speed);
        return NULL;
    }
    if (plb_py_put(out, "speed", speed) || plb_py_put(out, "why", PyUnicode_FromString(r->why)) ||
        plb_py_put(out, "kind", PyUnicode_FromString(kinds[r->kind])) ||
        plb_py_put(out, "reason", PyUnicode_FromString(plb_reason_words(r->verdict.reason))) ||
        plb_py_put(out, "figures", plb_py_figures(&r->verdict)) ||
        plb_py_put(out, "alternatives",
                   plb_py_as_tuple(plb_py_rows(alternative, r->alternatives, self->opt.n,
                                               sizeof *r->alternatives)))) {
        Py_CLEAR(out);
    }
    return out;
}

PLB_PY_DEF(decider, receipts, "",
           "Update the last receipt, and return all receipts that are kept, as dicts.")
{
    plb_decider_settle(&self->core);
    PyObject *out = PyList_New(0);
    for (int64_t i = 0; out != NULL && i < self->core.n_receipts; i++) {
        plb_py_append(&out, receipt_of(&self->core, &self->core.receipts[i]));
    }
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const decider_methods[] = {&decider_network,
                                                      &decider_limit,
                                                      &decider_expect,
                                                      &decider_observe,
                                                      &decider_see,
                                                      &decider_next,
                                                      &decider_judge,
                                                      &decider_preview,
                                                      &decider_previewed,
                                                      &decider_choose,
                                                      &decider_place,
                                                      &decider_placed,
                                                      &decider_balanced,
                                                      &decider_abandon,
                                                      &decider_receipts,
                                                      &decider_learn,
                                                      NULL};

#define X(name, type) PLB_PY_FIELD(plb_dropped_t, name),
static const plb_py_field_t dropped_fields[] = {PLB_DROPPED(X){0}};
#undef X

#define DECIDER(X)                                                                                \
    X(decider, n_lb_steps, PyLong_FromLongLong(self->core.n_lb_steps),                            \
      "Number of LB steps so far.")                                                               \
    X(decider, foresees, PyBool_FromLong(plb_decider_foresees(&self->core)),                      \
      "Whether an estimate of the cost of the first LB step would be used.")                      \
    X(decider, reason, PyLong_FromLong(self->core.trigger->verdict.reason),                       \
      "Number of the reason of the last verdict, for `choose`.")                                  \
    X(decider, can_judge, PyBool_FromLong(plb_decider_can_judge(&self->core)),                    \
      "Whether iterations have ended since the last LB step and the last call of `judge`.")       \
    X(decider, ledger,                                                                            \
      Py_BuildValue("NddL", PyBool_FromLong(self->core.ledger.off), self->core.ledger.paid,       \
                    self->core.ledger.gained, (long long)self->core.ledger.until),                \
      "State of the ledger: (whether LB steps are switched off, seconds that LB steps cost, "     \
      "seconds that they saved, iteration until which they are off).")                            \
    X(decider, dropped, plb_py_dict(dropped_fields, &self->core.dropped),                         \
      "Sums over the receipts that were dropped, a dict.")                                        \
    X(decider, speed,                                                                             \
      self->core.opt.learns ? plb_py_speeds(&self->core.learner) : Py_NewRef(Py_None),            \
      "Estimated speeds of the ranks, (p,); None: they seem equally fast, or their speeds are "   \
      "not known.")
PLB_PY_PROPERTIES(decider, DECIDER)

PLB_PY_TYPE(
    decider, "pylb._core.Decider",
    "* n_ranks candidates:T trigger selects selection ledger gives_up learns watches network:2 "
    "seed keep",
    "Decides when to rebalance and with which strategy (csrc/decide/decider.h).\n"
    "candidates: (what, name, refinement, looks_at, params) of each strategy; `what` is its\n"
    "name in the table, or a callable.",
    {Py_tp_getset, decider_getset}, )

plb_decider_t *plb_py_decider(PyObject *object)
{
    if (Py_TYPE(object)->tp_dealloc != decider_dealloc) {
        PyErr_Format(PyExc_TypeError, "decider is %R: expected a pylb._core.Decider", object);
        return NULL;
    }
    return &((decider_t *)object)->core;
}

PLB_PY_DEF(
    fn, first_cost, "alpha beta handling objects bytes n_ranks",
    "Return the expected seconds of the first LB step, without the strategy's time, if the\n"
    "busiest rank packs `objects` objects, unpacks as many and sends `bytes` bytes.")
{
    plb_lb_cost_t cost = {0};
    int64_t objects, bytes;
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_ONE(&cost.alpha), PLB_ONE(&cost.beta), PLB_ONE(&cost.handling),
                      PLB_ONE(&objects), PLB_ONE(&bytes), PLB_ONE(&n_ranks)));
    return plb_py_answer(c, PyFloat_FromDouble(plb_first_cost(&cost, objects, bytes, n_ranks)));
}

PLB_PY_DEF(fn, sampled, "keys n_objects n_ranks",
           "Return the indices, (m,) int64, of those keys[n] that are in the sample from which\n"
           "speeds are learned with a distributed strategy.  n_objects: number on all ranks.")
{
    const int64_t *key;
    int64_t n = -1, n_objects;
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n), PLB_ONE(&n_objects), PLB_ONE(&n_ranks)));
    int64_t *out = plb_py_memory(c, n, sizeof *out);
    PLB_PASS(out == NULL);
    const int64_t m = plb_decider_sampled(key, n, plb_decider_sample(n_objects, n_ranks), out);
    return plb_py_answer(c, plb_py_copy(out, m, NPY_INT64));
}

static const plb_py_def_t *const methods[] = {&fn_first_cost, &fn_sampled, NULL};

static int constants(PyObject *module)
{
#define X(name) #name,
    static const char *const placing[] = {PLB_PLACING(X)};
#undef X
    return plb_py_add_value(module, "FIGURES",
                            plb_py_names(placing, sizeof placing / sizeof *placing)) ||
           PyModule_AddIntConstant(module, "PLACING", N_PLACING) ||
           plb_py_add_value(module, "ASKS",
                            Py_BuildValue("iiii", PLB_ASK_NOTHING, PLB_ASK_JUDGE, PLB_ASK_PREVIEW,
                                          PLB_ASK_BALANCE));
}

const plb_py_room_t plb_py_decide_decider = {methods, {&decider_spec}, constants};
