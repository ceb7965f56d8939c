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
    PLB_PASS(PLB_READ(c, PLB_ONE(&list), PLB_ONE(&alpha), PLB_ONE(&beta),
                      PLB_MANY(&params, &n_params)));
    PLB_PASS(plb_py_refuse(n_params != PLB_N_SELECTION, PyExc_ValueError,
                           "selection takes %d parameters", PLB_N_SELECTION));
    const Py_ssize_t n = PyList_GET_SIZE(list);
    plb_candidate_t *candidates = plb_py_memory(c, n, sizeof *candidates);
    for (Py_ssize_t i = 0; candidates != NULL && i < n; i++) {
        bool refinement;
        PLB_PASS(plb_py_items(c, PyList_GET_ITEM(list, i), "refinement looks_at",
                              PLB_TABLE(PLB_ONE(&refinement), PLB_ONE(&candidates[i].looks_at))));
        candidates[i].family = refinement ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    }
    PLB_PASS(candidates == NULL);
    return plb_selector_init(&self->core, candidates, (int32_t)n, alpha, beta, params, &c->err);
}

static void selector_fini(selector_t *self)
{
    plb_selector_free(&self->core);
}

PLB_PY_DEF(selector, observe, "max mean total utilization messages bytes",
           "Record an iteration: maximum, mean and sum of the ranks' loads in seconds, lowest\n"
           "utilization, messages and bytes between ranks.  Returns whether to rebalance.")
{
    plb_workload_t w;
    PLB_PASS(PLB_READ(c, PLB_ONE(&w.max), PLB_ONE(&w.mean), PLB_ONE(&w.total),
                      PLB_ONE(&w.utilization), PLB_ONE(&w.messages), PLB_ONE(&w.bytes)));
    PLB_PASS(plb_selector_observe(&self->core, &w, &c->err));
    return plb_py_answer(c, PyBool_FromLong(self->core.choice.needed));
}

PLB_PY_DEF(
    selector, balanced, "candidate before after cost migrations",
    "Record an LB step with this candidate (its index): max/mean before and after, cost in\n"
    "seconds, number of migrations.")
{
    plb_outcome_t o;
    int32_t candidate;
    PLB_PASS(PLB_READ(c, PLB_ONE(&candidate), PLB_ONE(&o.before), PLB_ONE(&o.after),
                      PLB_ONE(&o.cost), PLB_ONE(&o.migrations)));
    return plb_selector_balanced(&self->core, candidate, &o, &c->err);
}

PLB_PY_DEF(selector, choice, "", "Return the choice for the most recent iteration as a dict.")
{
    static const plb_py_field_t fields[] = {PLB_PY_FIELD(plb_choice_t, needed),
                                            PLB_PY_FIELD(plb_choice_t, candidate),
                                            PLB_PY_FIELD(plb_choice_t, max_over_mean),
                                            PLB_PY_FIELD(plb_choice_t, utilization),
                                            PLB_PY_FIELD(plb_choice_t, communication_s),
                                            PLB_PY_FIELD(plb_choice_t, communication),
                                            {0}};
    const plb_choice_t *choice = &self->core.choice;
    PyObject *out =
        Py_BuildValue("{s:s,s:s,s:s,s:s,s:s}", "kind", plb_kind_name(choice->kind), "used",
                      plb_kind_name(choice->used), "family", plb_family_name(choice->family),
                      "need", plb_need_words(choice->need), "lead", plb_lead_words(choice->lead));
    if (out != NULL && plb_py_put_fields(out, fields, choice) != 0) {
        Py_CLEAR(out);
    }
    return plb_py_answer(c, out);
}

PLB_PY_DEF(selector, records, "",
           "Return (n, before, after, cost, migrations) of each candidate.  n: number of LB\n"
           "steps; before, after (max/mean), migrations: of the last one; cost: mean seconds.")
{
    static const plb_py_field_t fields[] = {PLB_PY_FIELD(plb_record_t, n),
                                            PLB_PY_FIELD(plb_record_t, last.before),
                                            PLB_PY_FIELD(plb_record_t, last.after),
                                            PLB_PY_FIELD(plb_record_t, last.cost),
                                            PLB_PY_FIELD(plb_record_t, last.migrations),
                                            {0}};
    return plb_py_answer(
        c, plb_py_rows(fields, self->core.records, self->core.n, sizeof *self->core.records));
}

static const plb_py_def_t *const selector_methods[] = {&selector_observe, &selector_balanced,
                                                       &selector_choice, &selector_records, NULL};

PLB_PY_TYPE(
    selector, "pylb._core.Selector", "candidates:L alpha beta params",
    "Chooses the strategy for LB steps.  Use pylb.decide.Selector.  candidates: a list of\n"
    "(refinement, looks_at); params: a value for each parameter of selection().", )

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

static const plb_py_def_t *const methods[] = {&fn_ledger, &fn_selection, NULL};

const plb_py_room_t plb_py_decide_selection = {methods, {&selector_spec}, NULL};
