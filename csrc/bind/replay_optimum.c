/* Python binding of csrc/replay: generated programs, and the best schedule of LB steps. */
#include "bind/rooms.h"

/* View a pylb.replaying.Imbalance, or any object with its attributes. */
static int view_program(plb_py_call_t *c, PyObject *object, plb_program_t *out)
{
    return plb_py_fields(c, object, "iterations mean residual start growth:? drift:? noise:?",
                         PLB_TABLE(PLB_ONE(&out->n), PLB_ONE(&out->mean), PLB_ONE(&out->residual),
                                   PLB_ONE(&out->start), PLB_MANY(&out->growth, &out->n),
                                   PLB_MANY(&out->drift, &out->n),
                                   PLB_MANY(&out->noise, &out->n)));
}

/* Answer the result of program_optimum() and trace_optimum(), and free `best`. */
static int schedule(plb_py_call_t *c, int ret, plb_optimum_t *best)
{
    if (ret == PLB_OK) {
        ret =
            plb_py_answer(c, Py_BuildValue("dNdNN", best->time,
                                           best->when ? plb_py_take(best->when, best->n, NPY_INT64)
                                                      : plb_py_copy(&best->n, 0, NPY_INT64),
                                           best->bound, PyBool_FromLong(best->exact),
                                           plb_py_take(best->which, best->n, NPY_INT32)));
        best->when = NULL; /* NumPy owns the arrays now */
        best->which = NULL;
    }
    plb_optimum_free(best);
    return ret;
}

PLB_PY_DEF(fn, program_optimum, "program cost",
           "Return the best schedule like trace_optimum(), but with iterations instead of\n"
           "phases.  It is proven to be the best, and there are no strategies (None).")
{
    PyObject *object;
    plb_program_t program = {0};
    plb_optimum_t best;
    plb_optimum_opts_t opts = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&opts.cost)));
    PLB_PASS(view_program(c, object, &program));
    return schedule(c, PLB_PY_UNLOCKED(c, plb_optimum_of_program(&best, &program, &opts, &c->err)),
                    &best);
}

PLB_PY_DEF(fn, program_run, "program trigger cost",
           "Run the program under a trigger that has observed nothing yet.  Returns (seconds of\n"
           "each iteration, iterations at whose end it rebalanced).")
{
    PyObject *object, *which;
    double cost;
    plb_program_t program = {0};
    int64_t n = 0;
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&which), PLB_ONE(&cost)));
    plb_trigger_t *trigger = plb_py_trigger(which);
    PLB_PASS(trigger == NULL);
    PLB_PASS(view_program(c, object, &program));
    double *time = plb_py_new(c, NPY_FLOAT64, program.n);
    int64_t *when = plb_py_memory(c, program.n, sizeof *when);
    PLB_PASS(PyErr_Occurred() != NULL);
    PLB_PASS(plb_program_run(&program, trigger, cost, time, when, &n, &c->err));
    return plb_py_answer(
        c, Py_BuildValue("NN", plb_py_sealed(c, time), plb_py_copy(when, n, NPY_INT64)));
}

/* Read strategies from a tuple of (name or callable, looks_at); `params` has the parameters of
 * all strategies, one after the other. */
static int candidates_of(plb_py_call_t *c, PyObject *rows, const double *params, int64_t n_params,
                         plb_candidate_strategy_t *out)
{
    int64_t n = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++) {
        PyObject *what;
        uint32_t looks_at;
        PLB_PASS(plb_py_items(c, PyTuple_GET_ITEM(rows, i), "what looks_at",
                              PLB_TABLE(PLB_ONE(&what), PLB_ONE(&looks_at))));
        PLB_PASS(plb_py_strategy(what, &out[i].strategy));
        out[i].strategy.looks_at = looks_at;
        out[i].params = params + n;
        n += out[i].strategy.n_params;
    }
    return plb_py_refuse(n != n_params, PyExc_ValueError,
                         "the strategies take %lld parameters: %lld given", (long long)n,
                         (long long)n_params);
}

PLB_PY_DEF(fn, trace_optimum, "trace strategies:T params cost seed width upper",
           "Return the best schedule found: (seconds, phases at whose end to rebalance, lower\n"
           "bound of the seconds, whether the schedule is proven to be the best, index of the\n"
           "strategy of each LB step).  seconds is inf if no schedule takes less than `upper`.")
{
    PyObject *object, *rows;
    const double *params;
    int64_t n_params = -1;
    plb_trace_t trace;
    plb_optimum_t best;
    plb_optimum_opts_t opts = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&rows), PLB_MANY(&params, &n_params),
                      PLB_ONE(&opts.cost), PLB_ONE(&opts.seed), PLB_ONE(&opts.width),
                      PLB_ONE(&opts.upper)));
    const Py_ssize_t n = PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *strategy = plb_py_memory(c, n, sizeof *strategy);
    PLB_PASS(strategy == NULL);
    PLB_PASS(plb_py_trace(c, object, &trace));
    PLB_PASS(candidates_of(c, rows, params, n_params, strategy));
    return schedule(c,
                    PLB_PY_UNLOCKED(c, plb_optimum_of_trace(&best, &trace, strategy, (int32_t)n,
                                                            &opts, &c->err)),
                    &best);
}

static const plb_py_def_t *const methods[] = {&fn_program_optimum, &fn_program_run,
                                              &fn_trace_optimum, NULL};

const plb_py_room_t plb_py_replay_optimum = {methods, {NULL}, NULL};
