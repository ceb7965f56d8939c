/* Python binding of csrc/decide: triggers, the selection of strategies, the decider, the advisor.
 */
#include "bind/views.h"

#include "base/base.h"
#include "decide/advisor.h"
#include "lib/experience.h"

typedef struct trigger {
    PLB_PY_HEAD plb_trigger_t core;
} trigger_t;

/* Observe an iteration by calling a Python callable, which is the state of the trigger. */
static void observe_callable(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    PyObject *const call = *(PyObject **)self->state;
    const plb_cycle_t *c = &self->cycle;
    const double left =
        self->end == INT64_MAX ? Py_HUGE_VAL : (double)(self->end - 1 - o->iteration);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *answer =
        PyObject_CallFunction(call, "LddLdddd", (long long)o->iteration, o->max, o->mean,
                              (long long)c->n, c->u, c->U, self->cost, left);
    const int says = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    PyGILState_Release(state);
    self->failed = says < 0 ? PLB_ERR_CALLBACK : PLB_OK;
    v->excess = c->U;
    v->reason = says > 0 ? PLB_REASON_ASKED : PLB_REASON_EARLY;
}

static const plb_trigger_kind_t kind_callable = {
    .name = "python",
    .help = "a Python function",
    .source = "",
    .state_size = sizeof(PyObject *),
    .foreign = true,
    .observe = observe_callable,
};

static int trigger_init(trigger_t *self, plb_py_call_t *c)
{
    PyObject *which;
    const double *params;
    int64_t n = -1;
    const plb_trigger_kind_t *kind = &kind_callable;
    PLB_PASS(PLB_READ(c, PLB_ONE(&which), PLB_MANY(&params, &n)));
    if (!PyCallable_Check(which)) {
        const char *name = PyUnicode_AsUTF8(which);
        PLB_PASS(name == NULL);
        kind = plb_trigger_find(name);
        PLB_PASS(
            plb_py_refuse(kind == NULL, PyExc_ValueError, "trigger %s is not in the table", name));
    }
    PLB_PASS(plb_py_refuse(n != kind->n_params, PyExc_ValueError, "%s takes %d parameters",
                           kind->name, kind->n_params));
    PLB_PASS(plb_trigger_init(&self->core, kind, params, &c->err));
    if (kind == &kind_callable) {
        *(PyObject **)self->core.state = Py_NewRef(which);
    }
    return 0;
}

static void trigger_fini(trigger_t *self)
{
    if (self->core.kind == &kind_callable && self->core.state != NULL) {
        Py_XDECREF(*(PyObject **)self->core.state);
    }
    plb_trigger_free(&self->core);
}

PLB_PY_DEF(trigger, observe, "iteration max mean",
           "Observe an iteration that has ended: maximum and mean of the ranks' seconds.")
{
    plb_observation_t o;
    PLB_PASS(PLB_READ(c, PLB_ONE(&o.iteration), PLB_ONE(&o.max), PLB_ONE(&o.mean)));
    PLB_PASS(plb_trigger_observe(&self->core, &o, &c->err));
    return plb_py_answer(c, PyBool_FromLong(self->core.verdict.balance));
}

PLB_PY_DEF(trigger, balanced, "iteration cost max_over_mean misled=False",
           "Record an LB step at the end of `iteration` that cost `cost` seconds.")
{
    int64_t iteration;
    double cost, max_over_mean;
    bool misled = false;
    PLB_PASS(PLB_READ(c, PLB_ONE(&iteration), PLB_ONE(&cost), PLB_ONE(&max_over_mean),
                      PLB_ONE(&misled)));
    self->core.misled = misled;
    return plb_trigger_balanced(&self->core, iteration, cost, max_over_mean, &c->err);
}

PLB_PY_DEF(trigger, expect, "end:? cost", "Set what is known before the run.")
{
    int64_t end;
    double cost;
    PLB_PASS(PLB_READ(c, PLB_ONE(&end), PLB_ONE(&cost)));
    return plb_trigger_expect(&self->core, end, cost, &c->err);
}

PLB_PY_DEF(trigger, begin, "experience",
           "Begin with what earlier runs have learned, as `learned` returns it.")
{
    const double *told;
    int64_t n = sizeof(plb_experience_t) / sizeof *told;
    PLB_PASS(PLB_READ(c, PLB_MANY(&told, &n)));
    return plb_trigger_begin(&self->core, (const plb_experience_t *)told, &c->err);
}

PLB_PY_DEF(trigger, learned, "", "Return what this run and earlier ones have learned.")
{
    const plb_experience_t e = plb_trigger_learned(&self->core);
    return plb_py_answer(c, plb_py_copy(&e, sizeof e / sizeof(double), NPY_FLOAT64));
}

PLB_PY_DEF(fn, read_experience, "path program",
           "Return plb_past_t (csrc/lib/experience.h), and what the user should know.")
{
    const char *path, *program;
    plb_past_t past;
    plb_err_t said = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&path), PLB_ONE(&program)));
    PLB_PASS(plb_experience_read(path, program, &past, &said, &c->err));
    PyObject *numbers = plb_py_copy(&past, sizeof past / sizeof(double), NPY_FLOAT64);
    return plb_py_answer(c, Py_BuildValue("Ns", numbers, said.text));
}

PLB_PY_DEF(trigger, write, "path program runs is_whole done",
           "Write what the run has learned (csrc/lib/experience.h); return done and words.")
{
    const char *path, *program;
    double runs;
    int64_t done;
    bool is_whole;
    plb_err_t said = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&path), PLB_ONE(&program), PLB_ONE(&runs), PLB_ONE(&is_whole),
                      PLB_ONE(&done)));
    plb_experience_write(path, program, runs, &self->core, is_whole, &done, &said);
    return plb_py_answer(c, Py_BuildValue("Ls", (long long)done, said.text));
}

#define X(name, unit, help) PLB_PY_FIELD(plb_verdict_t, name),
static const plb_py_field_t verdict_fields[] = {PLB_VERDICT(X){0}};
#undef X

PLB_PY_DEF(trigger, state, "",
           "Return the last verdict and its numbers as a dict; unknown numbers are nan.")
{
    const plb_verdict_t *v = &self->core.verdict;
    PyObject *out = plb_py_dict(verdict_fields, v);
    if (out != NULL &&
        (plb_py_put(out, "trigger", PyUnicode_FromString(self->core.kind->name)) ||
         plb_py_put(out, "balance", PyBool_FromLong(v->balance)) ||
         plb_py_put(out, "reason", PyUnicode_FromString(plb_reason_words[v->reason])) ||
         plb_py_put(out, "iteration", PyLong_FromLongLong(self->core.seen)) ||
         plb_py_put(out, "last", PyLong_FromLongLong(self->core.last)))) {
        Py_CLEAR(out);
    }
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const trigger_methods[] = {
    &trigger_expect,  &trigger_observe, &trigger_balanced, &trigger_begin,
    &trigger_learned, &trigger_write,   &trigger_state,    NULL};

static PyObject *params_of(const plb_trigger_t *self)
{
    PyObject *out = PyDict_New();
    for (int i = 0; out != NULL && i < self->kind->n_params; i++) {
        if (plb_py_put(out, self->kind->params[i].name, PyFloat_FromDouble(self->params[i]))) {
            Py_CLEAR(out);
        }
    }
    return out;
}

#define TRIGGER(X)                                                                                \
    X(trigger, name, PyUnicode_FromString(self->core.kind->name),                                 \
      "Name of the trigger in the table.")                                                        \
    X(trigger, params, params_of(&self->core), "Parameters of the trigger, a dict.")              \
    X(trigger, function,                                                                          \
      Py_NewRef(self->core.kind == &kind_callable ? *(PyObject **)self->core.state : Py_None),    \
      "The callable, or None.")                                                                   \
    X(trigger, reason, PyUnicode_FromString(plb_reason_words[self->core.verdict.reason]),         \
      "Reason of the most recent verdict, in words.")
PLB_PY_PROPERTIES(trigger, TRIGGER)

static PyObject *trigger_repr(PyObject *object)
{
    const plb_trigger_t *self = &((trigger_t *)object)->core;
    PyObject *params = params_of(self);
    PyObject *out =
        params ? PyUnicode_FromFormat("<Trigger %s %R>", self->kind->name, params) : NULL;
    Py_XDECREF(params);
    return out;
}

PLB_PY_TYPE(
    trigger, "pylb._core.Trigger", "name params",
    "Decides when to rebalance.  name: a trigger of the table, or a callable without params.",
    {Py_tp_getset, trigger_getset}, {Py_tp_repr, trigger_repr}, )

plb_trigger_t *plb_py_trigger(PyObject *object)
{
    if (Py_TYPE(object)->tp_dealloc != trigger_dealloc) {
        PyErr_Format(PyExc_TypeError, "trigger is %R: expected a pylb.Trigger", object);
        return NULL;
    }
    return &((trigger_t *)object)->core;
}

PLB_PY_DEF(fn, triggers, "", "Return (name, help, source, params) of every trigger.")
{
    PyObject *out = PyList_New(0);
    for (const plb_trigger_kind_t *const *k = plb_triggers; *k != NULL; k++) {
        plb_py_append(&out, Py_BuildValue("sssN", (*k)->name, (*k)->help, (*k)->source,
                                          plb_py_params((*k)->params, (*k)->n_params)));
    }
    return plb_py_answer(c, out);
}

PLB_PY_DEF(fn, selection, "",
           "Return (name, default, minimum, maximum, unit, help) of each parameter.")
{
    return plb_py_answer(c, plb_py_params(plb_selection_params, PLB_N_SELECTION));
}

PLB_PY_DEF(fn, ledger, "",
           "Return (name, default, minimum, maximum, unit, help) of each parameter.")
{
    return plb_py_answer(c, plb_py_params(plb_ledger_params, PLB_N_LEDGER));
}

typedef struct decider {
    PLB_PY_HEAD plb_decider_t core;
    PyObject *trigger, *candidates; /* owned, because `core` borrows their contents */
} decider_t;

/* ---- libraries: each is loaded when a strategy that needs it first runs --------------------- */

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

plb_candidate_strategy_t *plb_py_candidates(plb_py_call_t *c, PyObject *rows)
{
    const Py_ssize_t m = PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *out = plb_py_memory(c, m, sizeof *out);
    for (Py_ssize_t i = 0; out != NULL && i < m; i++) {
        plb_strategy_t *s = &out[i].strategy;
        PyObject *what;
        const char *name;
        bool refinement;
        uint32_t looks_at;
        int64_t n = -1;
        if (plb_py_items(c, PyTuple_GET_ITEM(rows, i), "what name refinement looks_at params",
                         PLB_TABLE(PLB_ONE(&what), PLB_ONE(&name), PLB_ONE(&refinement),
                                   PLB_ONE(&looks_at), PLB_MANY(&out[i].params, &n))) != 0 ||
            plb_py_strategy(what, s) != 0 ||
            plb_py_refuse(n != s->n_params, PyExc_ValueError, "%s takes %d parameters", name,
                          s->n_params) != 0) {
            return NULL;
        }
        s->run = s->library != NULL ? run_with_library : s->run;
        s->name = name;
        s->family = refinement ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
        s->looks_at = looks_at;
    }
    return out;
}

static int decider_init(decider_t *self, plb_py_call_t *c)
{
    plb_decider_options_t opt = {0};
    PyObject *rows, *trigger;
    int64_t n_selection = PLB_N_SELECTION, n_ledger = PLB_N_LEDGER;
    PLB_PASS(PLB_READ(c, PLB_ONE(&opt.n_ranks), PLB_ONE(&rows), PLB_ONE(&trigger),
                      PLB_ONE(&opt.selects), PLB_MANY(&opt.selection, &n_selection),
                      PLB_MANY(&opt.ledger, &n_ledger), PLB_ONE(&opt.gives_up),
                      PLB_ONE(&opt.learns), PLB_ONE(&opt.watches), PLB_ONE(&opt.move_at_most),
                      PLB_ONE(&opt.beside), PLB_ONE(&opt.network.alpha), PLB_ONE(&opt.seed),
                      PLB_ONE(&opt.keep)));
    opt.n = (int32_t)PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *candidates = plb_py_candidates(c, rows);
    plb_trigger_t *core = candidates != NULL ? plb_py_trigger(trigger) : NULL;
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

PLB_PY_DEF(decider, share, "share", "Set the cores per rank, if all ranks share cores; else 1.")
{
    return PLB_READ(c, PLB_ONE(&self->core.share));
}

PLB_PY_DEF(decider, limit, "bytes", "Set the memory limit of rank 0 in bytes; negative: none.")
{
    int64_t bytes;
    PLB_PASS(PLB_READ(c, PLB_ONE(&bytes)));
    self->core.limit = bytes;
    return PLB_OK;
}

PLB_PY_DEF(decider, expect, "end:? cost moving=nan", "Set what is known before the run.")
{
    int64_t end;
    double cost, moving = NAN;
    PLB_PASS(PLB_READ(c, PLB_ONE(&end), PLB_ONE(&cost), PLB_ONE(&moving)));
    return plb_decider_expect(&self->core, end, cost, moving, &c->err);
}

PLB_PY_DEF(
    decider, observe,
    "iteration time max mean min total utilization messages bytes hidden=0.0 idle=0.0",
    "Record an iteration (plb_iteration_t); return whether the trigger asks for an LB step.")
{
    plb_iteration_t it = {.hidden = 0.0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&it.iteration), PLB_ONE(&it.time), PLB_ONE(&it.max),
                      PLB_ONE(&it.mean), PLB_ONE(&it.min), PLB_ONE(&it.total),
                      PLB_ONE(&it.utilization), PLB_ONE(&it.messages), PLB_ONE(&it.bytes),
                      PLB_ONE(&it.hidden), PLB_ONE(&it.idle)));
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

PLB_PY_DEF(decider, next, "asked may_preview", "Return what to do now, one of ASKS.")
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

PLB_PY_DEF(decider, saving, "was now", "Return these seconds.")
{
    double was, now;
    PLB_PASS(PLB_READ(c, PLB_ONE(&was), PLB_ONE(&now)));
    return plb_py_answer(c, PyFloat_FromDouble(plb_decider_saving(&self->core, was, now)));
}

PLB_PY_DEF(decider, previewed, "gain",
           "Set the result of `preview`, on all ranks.  Returns one of ASKS, like `next`.")
{
    double gain;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PASS(PLB_READ(c, PLB_ONE(&gain)));
    PLB_PASS(plb_decider_previewed(&self->core, gain, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

/* ---- methods for an LB step ---- */

PLB_PY_DEF(decider, choose, "reason=-1 n_objects=0", "Begin an LB step.")
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

/* Read the arguments snapshot, here and work; set *n to the number of objects. */
static int read_database(plb_py_call_t *c, plb_database_t *out, int64_t *n)
{
    PyObject *snapshot;
    *out = (plb_database_t){.here = NULL};
    PLB_PASS(PLB_READ(c, PLB_ONE(&snapshot)));
    PLB_PASS(plb_py_snapshot(c, snapshot, &out->snapshot));
    *n = out->snapshot.n_objects;
    int64_t nd = *n * out->snapshot.n_components;
    PLB_PASS(PLB_READ(c, PLB_MANY(&out->here, &nd), PLB_MANY(&out->work, n)));
    return plb_py_refuse(out->snapshot.key == NULL && out->here != NULL, PyExc_ValueError,
                         "the snapshot has no keys: expected keys, because speeds are learned");
}

enum { N_PLACING = sizeof(plb_placing_t) / sizeof(double) };

PLB_PY_DEF(decider, place, "snapshot ... here:@? work:@? ... figures speed rank drift:@?=None",
           "Place the objects; call it on the rank that has the loads.")
{
    plb_database_t db;
    double *placing, *speed;
    int32_t *rank;
    int64_t n, n_placing = N_PLACING, p = self->core.opt.n_ranks;
    PLB_PASS(read_database(c, &db, &n));
    PLB_PASS(PLB_READ(c, PLB_MANY(&placing, &n_placing), PLB_MANY(&speed, &p), PLB_MANY(&rank, &n),
                      PLB_MANY(&db.drift, &n)));
    return PLB_PY_UNLOCKED(c, plb_decider_place(&self->core, &db, rank, speed,
                                                (plb_placing_t *)(void *)placing, &c->err));
}

PLB_PY_DEF(decider, preview, "snapshot ... here:@? work:@?",
           "Estimate what a new placement saves per iteration, on the rank with the loads.")
{
    plb_database_t db;
    double gain = 0.0;
    int64_t n;
    PLB_PASS(read_database(c, &db, &n));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_decider_preview(&self->core, &db, &gain, &c->err)));
    return plb_py_answer(c, PyFloat_FromDouble(gain));
}

PLB_PY_DEF(decider, begin, "snapshot ... here:@? work:@?",
           "Let the strategy begin to place, on the rank that has the loads; see `place`.")
{
    plb_database_t db;
    int64_t n;
    PLB_PASS(read_database(c, &db, &n));
    return PLB_PY_UNLOCKED(c, plb_decider_begin(&self->core, &db, &c->err));
}

PLB_PY_DEF(decider, learn, "key rank here work:? speed",
           "Learn speeds from a sample of n objects; call it on the rank with the sample.")
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
           "Set the result of `place`; call it on all ranks.")
{
    const double *figures, *speed;
    int64_t n = N_PLACING, p = self->core.opt.n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&figures, &n), PLB_MANY(&speed, &p)));
    return plb_decider_placed(&self->core, (const plb_placing_t *)figures, speed, &c->err);
}

PLB_PY_DEF(decider, balanced, "migrations bytes seconds_migration cost moved given=False",
           "End the LB step.")
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
    PyObject *out = plb_py_dict(receipt_fields, r);
    PyObject *speed = PyTuple_New(r->speed == NULL ? 0 : self->opt.n_ranks);
    for (int32_t i = 0; speed != NULL && r->speed != NULL && i < self->opt.n_ranks; i++) {
        PyTuple_SET_ITEM(speed, i, PyFloat_FromDouble(r->speed[i]));
    }
    if (out == NULL) {
        Py_XDECREF(speed);
        return NULL;
    }
    if (plb_py_put(out, "speed", speed) || plb_py_put(out, "why", PyUnicode_FromString(r->why)) ||
        plb_py_put(out, "kind", PyUnicode_FromString(kinds[r->kind])) ||
        plb_py_put(out, "reason", PyUnicode_FromString(plb_reason_words[r->verdict.reason])) ||
        plb_py_put(out, "figures", plb_py_dict(verdict_fields, &r->verdict)) ||
        plb_py_put(out, "alternatives",
                   plb_py_as_tuple(plb_py_rows(alternative, r->alternatives, self->opt.n,
                                               sizeof *r->alternatives)))) {
        Py_CLEAR(out);
    }
    return out;
}

PLB_PY_DEF(decider, receipts, "recent=False",
           "Update the last receipt, and return all receipts that are kept, as dicts.")
{
    bool recent = false;
    PLB_PASS(PLB_READ(c, PLB_ONE(&recent)));
    plb_decider_settle(&self->core);
    PyObject *out = PyList_New(0);
    const int64_t first = !recent               ? 0
                          : self->core.last < 0 ? self->core.n_receipts
                                                : self->core.last;
    for (int64_t i = first; out != NULL && i < self->core.n_receipts; i++) {
        plb_py_append(&out, receipt_of(&self->core, &self->core.receipts[i]));
    }
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const decider_methods[] = {
    &decider_network,  &decider_share,     &decider_saving,   &decider_limit, &decider_expect,
    &decider_observe,  &decider_see,       &decider_next,     &decider_judge, &decider_preview,
    &decider_begin,    &decider_previewed, &decider_choose,   &decider_place, &decider_placed,
    &decider_balanced, &decider_abandon,   &decider_receipts, &decider_learn, NULL};

#define X(name, type) PLB_PY_FIELD(plb_dropped_t, name),
static const plb_py_field_t dropped_fields[] = {PLB_DROPPED(X){0}};
#undef X

#define DECIDER(X)                                                                                \
    X(decider, n_lb_steps, PyLong_FromLongLong(self->core.n_lb_steps),                            \
      "Number of LB steps so far.")                                                               \
    X(decider, foresees,                                                                          \
      PyBool_FromLong(self->core.last < 0 && isnan(*self->core.trigger->told.cost)),              \
      "Whether an estimate of the cost of the first LB step would be used.")                      \
    X(decider, goes_on, PyBool_FromLong(self->core.goes_on),                                      \
      "Whether the next LB step is a further slice of the last one.")                             \
    X(decider, can_judge, PyBool_FromLong(plb_decider_can_judge(&self->core)),                    \
      "Whether iterations have ended since the last LB step and the last call of `judge`.")       \
    X(decider, ledger,                                                                            \
      Py_BuildValue("NddL", PyBool_FromLong(self->core.ledger.off), self->core.ledger.paid,       \
                    self->core.ledger.gained, (long long)self->core.ledger.until),                \
      "State of the ledger: (whether LB steps are switched off, seconds that LB steps cost, "     \
      "seconds that they saved, iteration until which they are off).")                            \
    X(decider, dropped, plb_py_dict(dropped_fields, &self->core.dropped),                         \
      "Sums over the receipts that were dropped, a dict.")
PLB_PY_PROPERTIES(decider, DECIDER)

PLB_PY_TYPE(
    decider, "pylb._core.Decider",
    "* n_ranks candidates:T trigger selects selection ledger gives_up learns watches "
    "move_at_most beside network:2 seed keep",
    "csrc/decide/decider.h.  candidates: (name or callable, name, refinement, looks_at, params).",
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
           "Return the indices of those keys[n] that are in the sample (plb_decider_sampled).")
{
    const int64_t *key;
    int64_t n = -1, n_objects;
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n), PLB_ONE(&n_objects), PLB_ONE(&n_ranks)));
    int64_t *out = plb_py_memory(c, n, sizeof *out);
    PLB_PASS(out == NULL);
    const int64_t m = plb_decider_sampled(key, n, n_objects, n_ranks, out);
    return plb_py_answer(c, plb_py_copy(out, m, NPY_INT64));
}

static int constants(PyObject *module)
{
#define X(name) #name,
    static const char *const placing[] = {PLB_PLACING(X)};
#undef X
    return plb_py_add_value(module, "FIGURES",
                            plb_py_names(placing, sizeof placing / sizeof *placing)) ||
           PyModule_AddIntConstant(module, "PLACING", N_PLACING) ||
           plb_py_add_value(module, "ASKS",
                            Py_BuildValue("iiiii", PLB_ASK_NOTHING, PLB_ASK_JUDGE, PLB_ASK_PREVIEW,
                                          PLB_ASK_BEGIN, PLB_ASK_BALANCE));
}

/* ---- the advisor ---------------------------------------------------------------------------- */

typedef struct advisor {
    PLB_PY_HEAD plb_advisor_t core;
    PyObject *decider; /* owned: `core` borrows it */
} advisor_t;

static int advisor_init(advisor_t *self, plb_py_call_t *c)
{
    PyObject *decider;
    bool places, waits = false, untold = false;
    PLB_PASS(PLB_READ(c, PLB_ONE(&decider), PLB_ONE(&places), PLB_ONE(&waits), PLB_ONE(&untold)));
    plb_decider_t *core = plb_py_decider(decider);
    PLB_PASS(core == NULL);
    self->decider = Py_NewRef(decider);
    plb_advisor_init(&self->core, core, places);
    self->core.share = waits ? core->share : 1.0;
    self->core.untold = untold;
    return 0;
}

static void advisor_fini(advisor_t *self)
{
    Py_XDECREF(self->decider);
}

PLB_PY_DEF(advisor, observe, "record now may_preview seconds partial", "Observe a step.")
{
    PyObject *tuple;
    int64_t now;
    bool may_preview;
    double seconds;
    plb_stats_t all;
    plb_iteration_t it;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PASS(PLB_READ(c, PLB_ONE(&tuple), PLB_ONE(&now), PLB_ONE(&may_preview), PLB_ONE(&seconds),
                      PLB_ONE(&self->core.partial)));
    PLB_PASS(plb_py_record(c, tuple, &all));
    const plb_advisor_outcome_t outcome = {all.cost_max, all.n_rebalanced};
    plb_advisor_iteration(&all, &it);
    plb_wait_check_observe(&self->core.waiting, &all, seconds);
    PLB_PASS(plb_advisor_observe(&self->core, &it, &outcome, now, may_preview, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

PLB_PY_DEF(advisor, previewed, "gain now",
           "Set the result of `Decider.preview`, on all ranks.  Returns NOTHING or BALANCE.")
{
    double gain;
    int64_t now;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PASS(PLB_READ(c, PLB_ONE(&gain), PLB_ONE(&now)));
    PLB_PASS(plb_advisor_previewed(&self->core, gain, now, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

PLB_PY_DEF(advisor, placed, "figures:@ speed:@? migrations bytes",
           "Set the plan of the LB step that is due; call it on all ranks.")
{
    const double *figures, *speed;
    int64_t n = N_PLACING, p = self->core.decider->opt.n_ranks, migrations, bytes;
    PLB_PASS(PLB_READ(c, PLB_MANY(&figures, &n), PLB_MANY(&speed, &p), PLB_ONE(&migrations),
                      PLB_ONE(&bytes)));
    return plb_advisor_placed(&self->core, (const plb_placing_t *)figures, speed, migrations,
                              bytes, &c->err);
}

PLB_PY_DEF(advisor, abandon, "", "Cancel the LB step that is due, after a failure.")
{
    plb_advisor_abandon(&self->core);
    return PLB_OK;
}

PLB_PY_DEF(advisor, judge, "",
           "Write into the receipt of the most recent LB step how much it has saved so far.")
{
    return plb_advisor_judge(&self->core, &c->err);
}

PLB_PY_DEF(advisor, word, "",
           "Return what the user should know after a step, each text once; None: nothing.")
{
    const char *word = plb_advisor_word(&self->core);
    return word == NULL ? PLB_OK : plb_py_answer(c, PyUnicode_FromString(word));
}

static const plb_py_def_t *const advisor_methods[] = {&advisor_observe,
                                                      &advisor_previewed,
                                                      &advisor_placed,
                                                      &advisor_abandon,
                                                      &advisor_judge,
                                                      &advisor_word,
                                                      NULL};

PLB_PY_TYPE(
    advisor, "pylb._core.Advisor", "decider places waits=False untold=False",
    "Drives a `Decider` for a program that moves its data itself (csrc/decide/advisor.h).", )

plb_advisor_t *plb_py_advisor(PyObject *object)
{
    return &((advisor_t *)object)->core;
}

typedef struct steps {
    PLB_PY_HEAD plb_steps_t core;
    plb_reduction_t alone; /* reductions of a single rank, used if there is only one rank */
    PyObject *reduction;   /* the capsule with the reductions of all ranks, or None */
} steps_t;

const plb_reduction_t *plb_py_reduction(plb_py_call_t *c, PyObject *capsule,
                                        plb_reduction_t *alone, int depth)
{
    if (capsule != Py_None) {
        return PyCapsule_GetPointer(capsule, plb_py_reduction_name);
    }
    return plb_reduction_alone(alone, depth, &c->err) == PLB_OK ? alone : NULL;
}

static int steps_init(steps_t *self, plb_py_call_t *c)
{
    PyObject *reduction;
    int32_t lag;
    PLB_PASS(PLB_READ(c, PLB_ONE(&reduction), PLB_ONE(&lag)));
    self->reduction = Py_NewRef(reduction);
    const plb_reduction_t *net = plb_py_reduction(c, reduction, &self->alone, lag + 2);
    PLB_PASS(net == NULL);
    return plb_steps_init(&self->core, net, lag, &c->err);
}

static void steps_fini(steps_t *self)
{
    plb_reduction_alone_free(&self->alone);
    Py_XDECREF(self->reduction);
}

static int64_t nanoseconds(double seconds)
{
    return seconds < 0.0 ? -1 : (int64_t)(1e9 * seconds);
}

PLB_PY_DEF(steps, begin, "sample ends=False",
           "Contribute this rank's sample (csrc/bind/views.h) to the next step.")
{
    PyObject *sample;
    bool ends = false;
    plb_stats_t mine;
    PLB_PASS(PLB_READ(c, PLB_ONE(&sample), PLB_ONE(&ends)));
    PLB_PASS(plb_py_sample(c, sample, self->core.net->rank, &mine));
    mine.n_ended = ends;
    return plb_steps_begin(&self->core, &mine, &c->err);
}

PLB_PY_DEF(steps, take, "seconds due=True",
           "Return the record that is due; due False: the oldest one under way.")
{
    bool have = false, due = true;
    double seconds;
    PLB_PASS(PLB_READ(c, PLB_ONE(&seconds), PLB_ONE(&due)));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_steps_take(&self->core, due, nanoseconds(seconds), plb_py_tick,
                                               &c->state, &have, &c->err)));
    return have ? plb_py_answer(c, plb_py_stats(&self->core.all)) : PLB_OK;
}

PLB_PY_DEF(steps, leave, "seconds",
           "Wait until no record is under way, for at most `seconds` (negative: no limit).")
{
    double seconds;
    bool done = false;
    PLB_PASS(PLB_READ(c, PLB_ONE(&seconds)));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_steps_leave(&self->core, nanoseconds(seconds), plb_py_tick,
                                                &c->state, &done, &c->err)));
    return plb_py_answer(c, PyBool_FromLong(done));
}

static const plb_py_def_t *const steps_methods[] = {&steps_begin, &steps_take, &steps_leave, NULL};

#define STEPS(X)                                                                                  \
    X(steps, under_way, PyLong_FromLongLong(plb_steps_under_way(&self->core)),                    \
      "Number of records that were begun but not taken.")                                         \
    X(steps, broken, PyBool_FromLong(plb_steps_broken(&self->core)),                              \
      "Whether the steps have ended: ranks are in different steps, a rank has failed, or some "   \
      "ranks (not all) have left.")
PLB_PY_PROPERTIES(steps, STEPS)

PLB_PY_TYPE(steps, "pylb._core.Steps", "reduction lag",
            "The merged records of all ranks, `lag` steps later (csrc/decide/advisor.h).",
            {Py_tp_getset, steps_getset}, )

PLB_PY_DEF(fn, load_sum, "loads", "Return the sum of loads[n], each 0 ... 1e30 seconds.")
{
    const double *loads;
    int64_t n = -1;
    double sum = 0.0;
    PLB_PASS(PLB_READ(c, PLB_MANY(&loads, &n)));
    PLB_PASS(plb_advisor_load(loads, n, &sum, &c->err));
    return plb_py_answer(c, PyFloat_FromDouble(sum));
}

static const plb_py_def_t *const methods[] = {
    &fn_triggers,   &fn_read_experience, &fn_ledger,   &fn_selection,
    &fn_first_cost, &fn_sampled,         &fn_load_sum, NULL};

const plb_py_room_t plb_py_decide = {
    methods, {&trigger_spec, &decider_spec, &advisor_spec, &steps_spec}, constants};
