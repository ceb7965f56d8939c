/* Python binding of csrc/replay: the replay of a recorded run. */
#include "bind/convert.h"
#include "bind/rooms.h"

typedef struct replay {
    PLB_PY_HEAD plb_replay_t core;
    PyObject *decider;          /* owned, or None */
    plb_measured_step_t *steps; /* owned */
} replay_t;

/* Read the measured LB steps from a list of tuples; the replay keeps them. */
static int read_steps(replay_t *self, plb_py_call_t *c, PyObject *rows, plb_replay_opts_t *opts)
{
    static const plb_py_field_t fields[] =
        PLB_PY_FIELDS(plb_measured_step_t, iteration, strategy, migrations, bytes, statistics,
                      placing, migration, whole);
    const Py_ssize_t n = PyList_GET_SIZE(rows);
    self->steps = plb_malloc((size_t)n, sizeof *self->steps);
    if (self->steps == NULL) {
        plb_py_no_memory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PLB_PY_PASS(plb_py_fill(c, fields, PyList_GET_ITEM(rows, i), &self->steps[i]));
    }
    opts->steps = self->steps;
    opts->n_steps = n;
    return 0;
}

static int replay_init(replay_t *self, plb_py_call_t *c)
{
    plb_replay_opts_t o = {0};
    PyObject *decider, *steps;
    PLB_PY_PASS(plb_py_parse(c, &o.n_ranks, &decider, &o.lag, &o.as_recorded, &o.foresight,
                             &o.moves, &o.network.alpha, &o.cost, &o.model.alpha, &o.per_move,
                             &o.per_byte, &steps, &o.keep_times, &o.keep_ranks));
    PLB_PY_PASS(decider != Py_None && (o.decider = plb_py_decider(decider)) == NULL);
    PLB_PY_PASS(read_steps(self, c, steps, &o));
    self->decider = Py_NewRef(decider);
    return plb_py_check(c, plb_replay_init(&self->core, &o, &c->err));
}

static void replay_fini(replay_t *self)
{
    plb_replay_free(&self->core);
    plb_free(self->steps);
    Py_XDECREF(self->decider);
}

PLB_PY_METHOD(
    replay, loop, "first:l n:l cost:d moving:d=nan",
    "Begin a loop of n iterations with the numbers `first`, first + 1, ...; phases that are\n"
    "fed next belong to it.  cost: expected seconds of the first LB step; moving: the part\n"
    "of this cost that migrations would take if all objects moved; nan: unknown.")
{
    plb_loop_t loop = {.moving = NAN};
    PLB_PY_TRY(plb_py_parse(c, &loop.first, &loop.n, &loop.cost, &loop.moving));
    return PLB_PY_NONE(c, plb_replay_loop(&self->core, &loop, &c->err));
}

PLB_PY_METHOD1(replay, feed, trace,
               "Replay the phases of `trace`.  An object (entity) keeps its index in all calls.")
{
    plb_trace_t phases;
    PLB_PY_TRY(plb_py_trace(c, trace, &phases));
    PLB_PY_RUN(c, plb_replay_feed(&self->core, &phases, &c->err));
    Py_RETURN_NONE;
}

PLB_PY_METHOD1(
    replay, start, objects,
    "Do the LB step that is due at the start of a loop, if there is one.  objects: a trace\n"
    "with one phase, the objects that exist now.")
{
    plb_trace_t trace;
    PLB_PY_TRY(plb_py_trace(c, objects, &trace));
    PLB_PY_RUN(c, plb_replay_start(&self->core, &trace, &c->err));
    Py_RETURN_NONE;
}

PLB_PY_METHOD(
    replay, settle, "left:O early:p=False",
    "Let the decider observe the most recent phase that was fed, although the next phase is\n"
    "not known yet.  left: a trace with one phase, the objects that exist now; None: those\n"
    "of the most recent phase.  early: True: the loop was left before its end.")
{
    PyObject *left = Py_None;
    bool early = false;
    plb_trace_t trace;
    PLB_PY_TRY(plb_py_parse(c, &left, &early));
    PLB_PY_TRY(left != Py_None && plb_py_trace(c, left, &trace) != 0);
    PLB_PY_RUN(c, plb_replay_settle(&self->core, left == Py_None ? NULL : &trace, early, &c->err));
    Py_RETURN_NONE;
}

PLB_PY_METHOD(
    replay, metrics, "begin:l",
    "Return (metrics as a dict of arrays, seconds) of the phases from number `begin` on.\n"
    "The values of earlier phases are forgotten, unless the times of the ranks are kept.")
{
    plb_replay_t *core = &self->core;
    int64_t begin;
    PLB_PY_TRY(plb_py_parse(c, &begin));
    const int64_t n = core->n, first = core->first;
    PLB_PY_RAISE_IF(begin < first || begin > n, PyExc_ValueError,
                    "begin is %lld: expected %lld ... %lld", (long long)begin, (long long)first,
                    (long long)n);
    plb_replay_forget(core, begin);
    const int64_t at = begin - core->first;
    const bool any = begin < n;
    return Py_BuildValue(
        "NN", plb_py_metrics_arrays(any ? core->metrics + at : NULL, n - begin),
        plb_py_copy(any ? core->seconds + at : &core->opt.cost, n - begin, NPY_FLOAT64));
}

/* Give the times of all ranks to NumPy, (phases, ranks); None if they were not kept. */
static PyObject *take_times(plb_replay_t *core)
{
    PyObject *flat = plb_py_take(core->times, core->n * core->opt.n_ranks, NPY_FLOAT64);
    core->times = NULL; /* plb_py_take has freed them if it has failed */
    if (flat == NULL || flat == Py_None) {
        return flat;
    }
    npy_intp shape[2] = {core->n, core->opt.n_ranks};
    PyArray_Dims dims = {shape, 2};
    PyObject *out = PyArray_Newshape((PyArrayObject *)flat, &dims, NPY_CORDER);
    Py_DECREF(flat);
    return out;
}

PLB_PY_METHOD0(
    replay, take,
    "Return (rank of each task, seconds of each rank in each phase); None: not kept.  Call\n"
    "it only one time, at the end, because the caller becomes the owner of the arrays.")
{
    PyObject *rank = plb_py_take(self->core.rank, self->core.tasks, NPY_INT32);
    self->core.rank = NULL;
    return Py_BuildValue("NN", rank, take_times(&self->core));
}

static PyMethodDef replay_methods[] =
    PLB_PY_METHODS(replay, loop, feed, start, settle, metrics, take);

PLB_PY_TYPE(
    replay, "pylb._core.Replay",
    "* n_ranks:i decider:O lag:i as_recorded:p foresight:p moves:p network:d2 cost:d model:d5 "
    "per_move:d per_byte:d steps:L keep_times:p keep_ranks:p",
    "Replays a recorded run under a decider (None: without one); see csrc/replay/replay.h.\n"
    "model: a plb_lb_cost_t (csrc/model/cost.h).  steps: the measured LB steps, each as\n"
    "(iteration, strategy, migrations, bytes, statistics, placing, migration, whole).", )

PLB_PY_FN1(repeats, trace,
           "Compare each phase with the previous one.  Returns a uint8 for each: 0: the tasks\n"
           "differ; 1: only the edges differ; 3: tasks and edges are the same.")
{
    plb_trace_t phases;
    PLB_PY_TRY(plb_py_trace(c, trace, &phases));
    uint8_t *out = plb_py_new(c, NPY_UINT8, phases.n_phases);
    PLB_PY_RUN(c, plb_trace_repeats(&phases, out, &c->err));
    return plb_py_out(c, out);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, repeats);

const plb_py_room_t plb_py_replay = {methods, {&replay_spec}, NULL};
