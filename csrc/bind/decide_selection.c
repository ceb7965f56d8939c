/* Python binding of csrc/decide: the selection of strategies; the parameters of the ledger. */
#include "bind/convert.h"
#include "bind/rooms.h"

typedef struct selector {
    PLB_PY_HEAD plb_selector_t core;
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
              "Record an iteration: maximum, mean and sum of the ranks' loads in seconds, lowest\n"
              "utilization, messages and bytes between ranks.  Returns whether to rebalance.")
{
    plb_workload_t w;
    PLB_PY_TRY(plb_py_parse(c, &w.max, &w.mean, &w.total, &w.utilization, &w.messages, &w.bytes));
    return PLB_PY_OR(c, plb_selector_observe(&self->core, &w, &c->err),
                     PyBool_FromLong(self->core.choice.needed));
}

PLB_PY_METHOD(
    selector, balanced, "candidate:i before:d after:d cost:d migrations:l",
    "Record an LB step with this candidate (its index): max/mean before and after, cost in\n"
    "seconds, number of migrations.")
{
    plb_outcome_t o;
    int32_t candidate;
    PLB_PY_TRY(plb_py_parse(c, &candidate, &o.before, &o.after, &o.cost, &o.migrations));
    return PLB_PY_NONE(c, plb_selector_balanced(&self->core, candidate, &o, &c->err));
}

PLB_PY_METHOD0(selector, choice, "Return the choice for the most recent iteration as a dict.")
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
               "Return (n, before, after, cost, migrations) of each candidate.  n: number of LB\n"
               "steps; before, after (max/mean), migrations: of the last one; cost: mean seconds.")
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
            "Chooses the strategy for LB steps.  Use pylb.Selector.  candidates: a list of\n"
            "(refinement, looks_at); params: a value for each parameter of selection().", )

PLB_PY_FN0(selection, "Return (name, default, minimum, maximum, unit, help) of each parameter.")
{
    return plb_py_params(plb_selection_params, PLB_N_SELECTION);
}

PLB_PY_FN0(ledger, "Return (name, default, minimum, maximum, unit, help) of each parameter.")
{
    return plb_py_params(plb_ledger_params, PLB_N_LEDGER);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, ledger, selection);

const plb_py_room_t plb_py_decide_selection = {methods, {&selector_spec}, NULL};
