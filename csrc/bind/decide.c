/* Python binding of csrc/decide: the table of triggers, and a trigger as a Python object. */
#include "bind/convert.h"
#include "bind/rooms.h"

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

static const plb_trigger_kind_t *kind_of(PyObject *which)
{
    if (PyCallable_Check(which)) {
        return &kind_callable;
    }
    const char *name = PyUnicode_AsUTF8(which);
    const plb_trigger_kind_t *kind = name ? plb_trigger_find(name) : NULL;
    if (kind == NULL && name != NULL) {
        PyErr_Format(PyExc_ValueError, "trigger %s is not in the table", name);
    }
    return kind;
}

static int trigger_init(trigger_t *self, plb_py_call_t *c)
{
    PyObject *which;
    const double *params;
    int64_t n = -1;
    const plb_trigger_kind_t *kind;
    PLB_PASS(PLB_READ(c, PLB_ONE(&which), PLB_MANY(&params, &n)));
    PLB_PASS((kind = kind_of(which)) == NULL);
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

PLB_PY_DEF(
    trigger, observe, "iteration max mean",
    "Observe an iteration that has ended: maximum and mean of the ranks' seconds.  Returns\n"
    "True if an LB step is due.  Iteration numbers must increase.  The times of an iteration\n"
    "from before the most recent LB step are ignored, and the answer is False.")
{
    plb_observation_t o;
    PLB_PASS(PLB_READ(c, PLB_ONE(&o.iteration), PLB_ONE(&o.max), PLB_ONE(&o.mean)));
    PLB_PASS(plb_trigger_observe(&self->core, &o, &c->err));
    return plb_py_answer(c, PyBool_FromLong(self->core.verdict.balance));
}

PLB_PY_DEF(trigger, balanced, "iteration cost max_over_mean misled=False",
           "Record an LB step at the end of `iteration` that cost `cost` seconds.\n"
           "max_over_mean: the max/mean that the LB step predicted, for the loads on which it\n"
           "was based.  misled: whether the loads have jumped since they were measured.")
{
    int64_t iteration;
    double cost, max_over_mean;
    bool misled = false;
    PLB_PASS(PLB_READ(c, PLB_ONE(&iteration), PLB_ONE(&cost), PLB_ONE(&max_over_mean),
                      PLB_ONE(&misled)));
    self->core.misled = misled;
    return plb_trigger_balanced(&self->core, iteration, cost, max_over_mean, &c->err);
}

PLB_PY_DEF(trigger, expect, "end:? cost",
           "Set what is known before the run.  end: the number of the final iteration plus 1;\n"
           "None: unknown.  cost: expected seconds of an LB step; nan: no new estimate.")
{
    int64_t end;
    double cost;
    PLB_PASS(PLB_READ(c, PLB_ONE(&end), PLB_ONE(&cost)));
    return plb_trigger_expect(&self->core, end, cost, &c->err);
}

PLB_PY_DEF(trigger, state, "",
           "Return the last verdict and its numbers as a dict; unknown numbers are nan.")
{
    const plb_verdict_t *v = &self->core.verdict;
    PyObject *out = plb_py_figures(v);
    if (out != NULL &&
        (plb_py_put(out, "trigger", PyUnicode_FromString(self->core.kind->name)) ||
         plb_py_put(out, "balance", PyBool_FromLong(v->balance)) ||
         plb_py_put(out, "reason", PyUnicode_FromString(plb_reason_words(v->reason))) ||
         plb_py_put(out, "iteration", PyLong_FromLongLong(self->core.seen)) ||
         plb_py_put(out, "last", PyLong_FromLongLong(self->core.last)))) {
        Py_CLEAR(out);
    }
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const trigger_methods[] = {&trigger_expect, &trigger_observe,
                                                      &trigger_balanced, &trigger_state, NULL};

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

static PyObject *function_of(const plb_trigger_t *self)
{
    return Py_NewRef(self->kind == &kind_callable ? *(PyObject **)self->state : Py_None);
}

static bool has_considered(plb_reason_t reason)
{
    return reason >= PLB_REASON_SUSPECT && reason < PLB_REASON_EVERY;
}

#define TRIGGER(X)                                                                                \
    X(trigger, name, PyUnicode_FromString(self->core.kind->name),                                 \
      "Name of the trigger in the table.")                                                        \
    X(trigger, foreign, PyBool_FromLong(self->core.kind->foreign),                                \
      "Whether the trigger is a user's function, which may give ranks different answers.")        \
    X(trigger, params, params_of(&self->core), "Parameters of the trigger, a dict.")              \
    X(trigger, function, function_of(&self->core), "The callable, or None.")                      \
    X(trigger, reason, PyUnicode_FromString(plb_reason_words(self->core.verdict.reason)),         \
      "Reason of the most recent verdict, in words.")                                             \
    X(trigger, considered, PyBool_FromLong(has_considered(self->core.verdict.reason)),            \
      "Whether the most recent verdict considered an LB step and decided against it.")
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
    "Decides when to rebalance: a state machine that observes iterations and LB steps.\n"
    "name: a trigger of the table, or a callable.  params: a value for each parameter of the\n"
    "trigger, none for a callable.  Use pylb.trigger to create one.",
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

static const plb_py_def_t *const methods[] = {&fn_triggers, NULL};

const plb_py_room_t plb_py_decide = {methods, {&trigger_spec}, NULL};
