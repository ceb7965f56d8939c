/* Room decide: the ledger and the selection of strategies as Python objects. */
#include "bind/convert.h"
#include "bind/rooms.h"

/* ---- the ledger ----------------------------------------------------------------------------- */

typedef struct ledger {
    PyObject ob_base;
    plb_ledger_t core;
} ledger_t;

static int ledger_init(ledger_t *self, plb_py_call_t *c)
{
    int32_t strategies;
    const double *params;
    int64_t n = -1;
    PLB_PY_PASS(plb_py_parse(c, &strategies, &params, &n));
    PLB_PY_REFUSE_IF(n != PLB_N_LEDGER || strategies < 0, PyExc_ValueError,
                     "a ledger takes 1 or more strategies and %d parameters", PLB_N_LEDGER);
    return plb_py_check(c, plb_ledger_init(&self->core, strategies, params, &c->err));
}

static void ledger_fini(ledger_t *self)
{
    plb_ledger_free(&self->core);
}

PLB_PY_METHOD1(ledger, catch_up, rows,
               "Record m iterations at once: rows of time, maximum and mean load, (m, 3 or more)\n"
               "float64.")
{
    int ret = PLB_OK;
    PyArrayObject *a = plb_py_hold(&c->held, rows, NPY_FLOAT64, 2);
    PLB_PY_GET(a);
    PLB_PY_RAISE_IF(PyArray_DIM(a, 1) < 3, PyExc_ValueError,
                    "rows: expected (m, 3 or more) float64");
    const npy_intp n = PyArray_DIM(a, 0), m = PyArray_DIM(a, 1);
    const double *row = PyArray_DATA(a);
    for (npy_intp i = 0; i < n && ret == PLB_OK; i++, row += m) {
        ret = plb_ledger_observe(&self->core, row[0], row[1], row[2], &c->err);
    }
    return PLB_PY_NONE(c, ret);
}

PLB_PY_METHOD(ledger, observe, "time:d max:d mean:d",
              "Record an iteration: its seconds, maximum and mean load.")
{
    double time, max, mean;
    PLB_PY_TRY(plb_py_parse(c, &time, &max, &mean));
    return PLB_PY_NONE(c, plb_ledger_observe(&self->core, time, max, mean, &c->err));
}

PLB_PY_METHOD(ledger, judges, "iteration:l asked:p",
              "Return whether it is time to compute what the last LB step has saved.  asked:\n"
              "an LB step is due.")
{
    int64_t iteration;
    bool asked;
    PLB_PY_TRY(plb_py_parse(c, &iteration, &asked));
    return PyBool_FromLong(plb_ledger_judges(&self->core, iteration, asked));
}

PLB_PY_METHOD(ledger, judge, "iteration:l gain:d",
              "Record that the last LB step has saved `gain` seconds up to and including\n"
              "`iteration`.")
{
    int64_t iteration;
    double gain;
    PLB_PY_TRY(plb_py_parse(c, &iteration, &gain));
    return PLB_PY_NONE(c, plb_ledger_judge(&self->core, iteration, gain, &c->err));
}

PLB_PY_METHOD(ledger, allows, "iteration:l",
              "Return whether an LB step that is due may take place.")
{
    int64_t iteration;
    PLB_PY_TRY(plb_py_parse(c, &iteration));
    return PyBool_FromLong(plb_ledger_allows(&self->core, iteration));
}

PLB_PY_METHOD(ledger, balanced,
              "iteration:l strategy:i statistics:d seconds:d migration:d whole:d",
              "Record an LB step: the seconds of its parts and of the whole; nan: not known.")
{
    int64_t iteration;
    int32_t strategy;
    plb_costs_t costs = {0};
    PLB_PY_TRY(plb_py_parse(c, &iteration, &strategy, &costs.statistics, &costs.strategy,
                            &costs.migration, &costs.whole));
    return PLB_PY_NONE(c, plb_ledger_balanced(&self->core, iteration, strategy, &costs, &c->err));
}

PLB_PY_METHOD(ledger, theta, "strategy:i",
              "Return the expected seconds of an LB step with a strategy; nan: not known.")
{
    int32_t strategy;
    PLB_PY_TRY(plb_py_parse(c, &strategy));
    return PyFloat_FromDouble(plb_ledger_theta(&self->core, strategy));
}

PLB_PY_METHOD0(ledger, state, "Return the state of the ledger as a dict.")
{
    static const plb_py_field_t fields[] = PLB_PY_FIELDS(
        plb_ledger_t, off, trial, open, until, pause, paid, gained, judged, last, cost, warm_up);
    return plb_py_dict(fields, &self->core);
}

static PyMethodDef ledger_methods[] =
    PLB_PY_METHODS(ledger, observe, catch_up, judges, judge, allows, balanced, theta, state);

PLB_PY_TYPE(ledger, "pylb._core.Ledger", "strategies:i params:f8",
            "Records what LB steps cost and save, and tells whether rebalancing pays: a state\n"
            "machine. params: one value for each parameter that ledger() lists.", )

PLB_PY_FN0(ledger,
           "Return (name, default, least, most, unit, help) of each parameter of the ledger.")
{
    return plb_py_params(plb_ledger_params, PLB_N_LEDGER);
}

/* ---- the selection -------------------------------------------------------------------------- */

typedef struct selector {
    PyObject ob_base;
    plb_selector_t core;
} selector_t;

static int selector_init(selector_t *self, plb_py_call_t *c)
{
    PyObject *list;
    double alpha, beta;
    const double *params;
    int64_t n_params = -1;
    PLB_PY_PASS(plb_py_parse(c, &list, &alpha, &beta, &params, &n_params));
    PLB_PY_REFUSE_IF(n_params != PLB_N_SELECTION, PyExc_ValueError,
                     "selection takes %d parameters", PLB_N_SELECTION);
    const Py_ssize_t n = PyList_GET_SIZE(list);
    plb_candidate_t *candidates = plb_py_memory(c, n, sizeof *candidates);
    for (Py_ssize_t i = 0; candidates != NULL && i < n; i++) {
        bool refinement;
        PLB_PY_PASS(plb_py_items(c, PyList_GET_ITEM(list, i), "refinement:p looks_at:u",
                                 &refinement, &candidates[i].looks_at));
        candidates[i].family = refinement ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    }
    return candidates == NULL
               ? -1
               : plb_py_check(c, plb_selector_init(&self->core, candidates, (int32_t)n, alpha,
                                                   beta, params, &c->err));
}

static void selector_fini(selector_t *self)
{
    plb_selector_free(&self->core);
}

PLB_PY_METHOD(selector, observe, "max:d mean:d total:d utilization:d messages:l bytes:l",
              "Record an iteration: maximum, mean and sum of the ranks' loads in seconds,\n"
              "utilization of the least utilized rank, messages and bytes between ranks. Returns\n"
              "whether an LB step is needed.")
{
    plb_workload_t w;
    PLB_PY_TRY(plb_py_parse(c, &w.max, &w.mean, &w.total, &w.utilization, &w.messages, &w.bytes));
    return PLB_PY_OR(c, plb_selector_observe(&self->core, &w, &c->err),
                     PyBool_FromLong(self->core.choice.needed));
}

PLB_PY_METHOD(
    selector, balanced, "candidate:i before:d after:d cost:d migrations:l",
    "Record an LB step with this candidate: max/mean before and after, seconds, number of\n"
    "migrations.")
{
    plb_outcome_t o;
    int32_t candidate;
    PLB_PY_TRY(plb_py_parse(c, &candidate, &o.before, &o.after, &o.cost, &o.migrations));
    return PLB_PY_NONE(c, plb_selector_balanced(&self->core, candidate, &o, &c->err));
}

PLB_PY_METHOD0(selector, choice, "Return the choice for the last iteration as a dict.")
{
    static const plb_py_field_t fields[] =
        PLB_PY_FIELDS(plb_choice_t, needed, candidate, max_over_mean, utilization, communication_s,
                      communication);
    const plb_choice_t *choice = &self->core.choice;
    PyObject *out =
        Py_BuildValue("{s:s,s:s,s:s,s:s,s:s}", "kind", plb_kind_name(choice->kind), "used",
                      plb_kind_name(choice->used), "family", plb_family_name(choice->family),
                      "need", plb_need_words(choice->need), "lead", plb_lead_words(choice->lead));
    if (out != NULL && plb_py_put_fields(out, fields, choice) != 0) {
        Py_CLEAR(out);
    }
    return out;
}

PLB_PY_METHOD0(selector, records,
               "Return (number of LB steps, max/mean before, max/mean after, cost in seconds,\n"
               "migrations) of each candidate.")
{
    static const plb_py_field_t fields[] = {
        PLB_PY_FIELD(plb_record_t, n),
        PLB_PY_FIELD_AS(plb_record_t, last.before, before),
        PLB_PY_FIELD_AS(plb_record_t, last.after, after),
        PLB_PY_FIELD_AS(plb_record_t, last.cost, cost),
        PLB_PY_FIELD_AS(plb_record_t, last.migrations, migrations),
        {0}};
    return plb_py_rows(fields, self->core.records, self->core.n, sizeof *self->core.records);
}

static PyMethodDef selector_methods[] =
    PLB_PY_METHODS(selector, observe, balanced, choice, records);

PLB_PY_TYPE(selector, "pylb._core.Selector", "candidates:L alpha:d beta:d params:f8",
            "Chooses the strategy to rebalance with: a state machine that gets iterations and LB\n"
            "steps.  candidates: a list of (refinement, looks_at); params: one value for each\n"
            "parameter that selection() lists.  Use pylb.Selector.", )

PLB_PY_FN0(selection,
           "Return (name, default, least, most, unit, help) of each parameter of the selection.")
{
    return plb_py_params(plb_selection_params, PLB_N_SELECTION);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, ledger, selection);

const plb_py_room_t plb_py_decide_ledger = {methods, {&ledger_spec, &selector_spec}, NULL};
