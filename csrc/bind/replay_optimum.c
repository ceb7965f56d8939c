/* Python binding of csrc/replay: generated programs, and the best schedule of LB steps. */
#include "bind/rooms.h"

/* View a pylb.Imbalance, or any object with its attributes. */
static int view_program(plb_py_call_t *c, PyObject *object, plb_program_t *out)
{
    PLB_PY_PASS(plb_py_fields(c, object, "iterations:l mean:d residual:d start:d", &out->n,
                              &out->mean, &out->residual, &out->start));
    PLB_PY_PASS(plb_py_fields(c, object, "growth:f8? drift:f8? noise:f8?", &out->growth, &out->n,
                              &out->drift, &out->n, &out->noise, &out->n));
    return 0;
}

/* Make the result of program_optimum() and trace_optimum(), and free `best`. */
static PyObject *schedule(plb_py_call_t *c, plb_optimum_t *best)
{
    PyObject *out = c->code != PLB_OK
                        ? plb_py_fail(c)
                        : Py_BuildValue("dNdNN", best->time,
                                        best->when ? plb_py_take(best->when, best->n, NPY_INT64)
                                                   : plb_py_copy(&best->n, 0, NPY_INT64),
                                        best->bound, PyBool_FromLong(best->exact),
                                        plb_py_take(best->which, best->n, NPY_INT32));
    if (c->code == PLB_OK) { /* NumPy owns the arrays now */
        best->when = NULL;
        best->which = NULL;
    }
    plb_optimum_free(best);
    return out;
}

PLB_PY_FN(program_optimum, "program:O cost:d",
          "Return the best schedule like trace_optimum(), but with iterations instead of\n"
          "phases.  It is proven to be the best, and there are no strategies (None).")
{
    PyObject *object;
    plb_program_t program = {0};
    plb_optimum_t best;
    plb_optimum_opts_t opts = {0};
    PLB_PY_TRY(plb_py_parse(c, &object, &opts.cost));
    PLB_PY_TRY(view_program(c, object, &program));
    (void)PLB_PY_UNLOCKED(c, plb_optimum_of_program(&best, &program, &opts, &c->err));
    return schedule(c, &best);
}

PLB_PY_FN(program_run, "program:O trigger:O cost:d",
          "Run the program under a trigger that has observed nothing yet.  Returns (seconds of\n"
          "each iteration, iterations at whose end it rebalanced).")
{
    PyObject *object, *which;
    double cost;
    plb_program_t program = {0};
    int64_t n = 0;
    PLB_PY_TRY(plb_py_parse(c, &object, &which, &cost));
    plb_trigger_t *trigger = plb_py_trigger(which);
    PLB_PY_GET(trigger);
    PLB_PY_TRY(view_program(c, object, &program));
    double *time = plb_py_new(c, NPY_FLOAT64, program.n);
    int64_t *when = plb_py_memory(c, program.n, sizeof *when);
    return PLB_PY_OR(c, plb_program_run(&program, trigger, cost, time, when, &n, &c->err),
                     Py_BuildValue("NN", plb_py_sealed(c, time), plb_py_copy(when, n, NPY_INT64)));
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
        PLB_PY_PASS(
            plb_py_items(c, PyTuple_GET_ITEM(rows, i), "what:O looks_at:u", &what, &looks_at));
        PLB_PY_PASS(plb_py_strategy(what, &out[i].strategy));
        out[i].strategy.looks_at = looks_at;
        out[i].params = params + n;
        n += out[i].strategy.n_params;
    }
    PLB_PY_REFUSE_IF(n != n_params, PyExc_ValueError,
                     "the strategies take %lld parameters: %lld given", (long long)n,
                     (long long)n_params);
    return 0;
}

PLB_PY_FN(trace_optimum, "trace:O strategies:T params:f8 cost:d seed:k width:l upper:d",
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
    PLB_PY_TRY(plb_py_parse(c, &object, &rows, &params, &n_params, &opts.cost, &opts.seed,
                            &opts.width, &opts.upper));
    const Py_ssize_t n = PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *strategy = plb_py_memory(c, n, sizeof *strategy);
    PLB_PY_GET(strategy);
    PLB_PY_TRY(plb_py_trace(c, object, &trace));
    PLB_PY_TRY(candidates_of(c, rows, params, n_params, strategy));
    (void)PLB_PY_UNLOCKED(
        c, plb_optimum_of_trace(&best, &trace, strategy, (int32_t)n, &opts, &c->err));
    return schedule(c, &best);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, program_optimum, program_run, trace_optimum);

const plb_py_room_t plb_py_replay_optimum = {methods, {NULL}, NULL};
