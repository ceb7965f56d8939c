/* Python binding of csrc/place: strategies, also Python callables; shares of whole rows. */
#include "bind/views.h"

#include "place/strategy.h"

static PyObject *python_snapshot(const plb_snapshot_t *s)
{
    const int64_t n = s->n_objects, d = s->n_components, p = s->n_ranks, m = s->n_edges;
    const int64_t c = s->n_multicasts, pins = s->n_pins, b = s->n_blocks;
    const int64_t v = s->n_speeds > 1 ? s->n_speeds : 1;
    PyObject *arrays = PyDict_New();
    int failed = arrays == NULL;
#define COPY(name, type, count)                                                                   \
    failed = failed || plb_py_put(arrays, #name, plb_py_copy(s->name, count, type)) != 0;
    PLB_PY_SNAPSHOT(COPY)
#undef COPY
    PyObject *module = failed ? NULL : PyImport_ImportModule("pylb.model.snapshot");
    PyObject *out = module ? PyObject_CallMethod(module, "from_core", "iiO", (int)s->n_ranks,
                                                 (int)s->n_components, arrays)
                           : NULL;
    Py_XDECREF(module);
    Py_XDECREF(arrays);
    return out;
}

/* Call the callable through pylb.placing.registry, which checks the answer; or let it begin. */
static int ask(PyObject *callable, const plb_snapshot_t *in, bool begins, int32_t *out)
{
    PyObject *snapshot = python_snapshot(in);
    if (begins) {
        PyObject *begun = snapshot ? PyObject_CallMethod(callable, "begin", "O", snapshot) : NULL;
        Py_XDECREF(snapshot);
        Py_XDECREF(begun);
        return begun == NULL ? -1 : 0;
    }
    PyObject *module = snapshot ? PyImport_ImportModule("pylb.placing.registry") : NULL;
    PyObject *answer =
        module ? PyObject_CallMethod(module, "answer_of", "OO", callable, snapshot) : NULL;
    int ret = -1;
    if (answer != NULL && PyArray_Check(answer)) {
        memcpy(out, PyArray_DATA((PyArrayObject *)answer), (size_t)in->n_objects * sizeof *out);
        ret = 0;
    }
    Py_XDECREF(answer);
    Py_XDECREF(module);
    Py_XDECREF(snapshot);
    return ret;
}

static int run_callable(const plb_strategy_t *self, const plb_snapshot_t *in,
                        const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    PyGILState_STATE state = PyGILState_Ensure();
    const int failed = ask(self->user, in, opts != NULL && opts->begins, out);
    PyGILState_Release(state);
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "the strategy has raised an error") : PLB_OK;
}

int plb_py_strategy(PyObject *object, plb_strategy_t *out)
{
    if (!PyUnicode_Check(object)) {
        *out = (plb_strategy_t){.name = "python",
                                .looks_at = ~0u,
                                .takes_phases = true,
                                .run = run_callable,
                                .user = object};
        return 0;
    }
    const char *name = PyUnicode_AsUTF8(object);
    const plb_strategy_t *found = name ? plb_strategy_find(name) : NULL;
    PLB_PASS(plb_py_refuse(name != NULL && found == NULL, PyExc_ValueError,
                           "strategy %R is not in the table", object));
    PLB_PASS(found == NULL);
    *out = *found;
    return 0;
}

PLB_PY_DEF(fn, strategies, "",
           "Return (name, family, looks_at, help, source, params, distributed, library,\n"
           "for_equal_objects, takes_phases) of every strategy.")
{
    PyObject *out = PyList_New(0);
    for (const plb_strategy_t *const *at = plb_strategies; *at != NULL; at++) {
        const plb_strategy_t *s = *at;
        const char *family = s->family == PLB_COMPREHENSIVE ? "comprehensive" : "refinement";
        plb_py_append(&out, Py_BuildValue("ssIssNNzNN", s->name, family, s->looks_at, s->help,
                                          s->source, plb_py_params(s->params, s->n_params),
                                          PyBool_FromLong(s->agent != NULL), s->library,
                                          PyBool_FromLong(s->for_equal_objects),
                                          PyBool_FromLong(s->takes_phases)));
    }
    return plb_py_answer(c, out);
}

/* A call of a strategy, and the evaluation of its placement, which run without the GIL. */
typedef struct question {
    plb_snapshot_t snapshot;
    plb_strategy_t strategy;
    plb_opts_t opts;
    int32_t *rank;
    plb_change_t change;
    plb_metrics_t before, after;
    double seconds;
} question_t;

static int run_and_measure(question_t *self, plb_err_t *err)
{
    const int32_t p = self->snapshot.n_ranks;
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    PLB_PASS(plb_strategy_place(&self->strategy, &self->snapshot, &self->opts, self->rank, err));
    self->seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    PLB_PASS(plb_snapshot_compare(&self->snapshot, self->rank, &self->change, err));
    plb_metrics_of(self->change.before, p, &self->before);
    plb_metrics_of(self->change.after, p, &self->after);
    return PLB_OK;
}

PLB_PY_DEF(fn, place, "snapshot strategy params seed",
           "Run one strategy: a name or a callable; params in the order of the strategy's table.")
{
    PyObject *object, *which;
    question_t q = {.opts = {0}};
    int64_t n_params = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&which), PLB_MANY(&q.opts.params, &n_params),
                      PLB_ONE(&q.opts.seed)));
    PLB_PASS(plb_py_strategy(which, &q.strategy));
    PLB_PASS(plb_py_snapshot(c, object, &q.snapshot));
    PLB_PASS(plb_py_refuse(q.strategy.run != run_callable && n_params != q.strategy.n_params,
                           PyExc_ValueError, "%s takes %d parameters: %lld given", q.strategy.name,
                           q.strategy.n_params, (long long)n_params));
    const int32_t p = q.snapshot.n_ranks;
    PLB_PASS((q.rank = plb_py_new(c, NPY_INT32, q.snapshot.n_objects)) == NULL);
    PLB_PASS((q.change.before = plb_py_memory(c, p, sizeof(double))) == NULL);
    PLB_PASS((q.change.after = plb_py_memory(c, p, sizeof(double))) == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(c, run_and_measure(&q, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NNNLLd", plb_py_sealed(c, q.rank),
                                          plb_py_metrics(&q.before), plb_py_metrics(&q.after),
                                          (long long)q.change.migrations,
                                          (long long)q.change.bytes, q.seconds));
}

PLB_PY_DEF(fn, apportion, "share n",
           "Return integers that add up to n and are nearly proportional to share[p], by the\n"
           "largest remainder; ties: the lowest index.")
{
    const double *share;
    int64_t p = -1, n;
    PLB_PASS(PLB_READ(c, PLB_MANY(&share, &p), PLB_ONE(&n)));
    PLB_PASS(plb_py_refuse(p < 1 || n < 0 || n > PLB_MOST_APPORTIONED, PyExc_ValueError,
                           "share: expected one or more entries; n: expected 0 ... %lld",
                           PLB_MOST_APPORTIONED));
    int64_t *parts = plb_py_new(c, NPY_INT64, p);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_apportion(share, (int32_t)p, n, parts, &c->err)));
    return plb_py_answer(c, plb_py_out(c, parts));
}

PLB_PY_DEF(
    fn, copies,
    "load:@ first n_objects previous:@? ... memory:? limit:? bytes:? group:? node:? n_groups "
    "n_nodes tolerance move even",
    "Place layers of objects that may have several copies, as csrc/place/strategy.h says.")
{
    plb_copies_t of = {0};
    const double *load;
    const int32_t *was = NULL;
    int64_t n_loads = -1, n, p = -1, n_was = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&load, &n_loads), PLB_MANY(&of.first, &p), PLB_ONE(&n),
                      PLB_MANY(&was, &n_was)));
    of.n_objects = (int32_t)n;
    of.n_ranks = (int32_t)--p;
    const int64_t s = of.first[p], n_layers = n > 0 ? n_loads / n : 0;
    PLB_PASS(PLB_READ(c, PLB_MANY(&of.memory, &n), PLB_MANY(&of.limit, &p),
                      PLB_MANY(&of.bytes, &n), PLB_MANY(&of.group, &n), PLB_MANY(&of.node, &p),
                      PLB_ONE(&of.n_groups), PLB_ONE(&of.n_nodes), PLB_ONE(&of.tolerance),
                      PLB_ONE(&of.move), PLB_ONE(&of.even)));
    PLB_PASS(plb_py_refuse(was != NULL && n_was != n_layers * s, PyExc_ValueError,
                           "previous: expected %lld entries", (long long)(n_layers * s)));
    int32_t *slot = plb_py_new2(c, NPY_INT32, n_layers, s);
    double *share = plb_py_new2(c, NPY_FLOAT64, n_layers, s);
    double *times = plb_py_new2(c, NPY_FLOAT64, n_layers, 3);
    int64_t *moved = plb_py_new2(c, NPY_INT64, n_layers, 2);
    plb_copies_result_t *out = plb_py_memory(c, n_layers, sizeof *out);
    PLB_PASS(out == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, plb_copies_place(&of, (int32_t)n_layers, load, was, slot, share, out, &c->err)));
    for (int64_t i = 0; i < n_layers; i++) {
        times[3 * i] = out[i].max, times[3 * i + 1] = out[i].mean, times[3 * i + 2] = out[i].bound;
        moved[2 * i] = out[i].migrations, moved[2 * i + 1] = out[i].bytes;
    }
    return plb_py_answer(c, Py_BuildValue("NNNN", plb_py_out(c, slot), plb_py_out(c, share),
                                          plb_py_out(c, times), plb_py_out(c, moved)));
}

PLB_PY_DEF(fn, pack, "cost bins length:? capacity equal previous:?",
           "Deal items out to bins, as csrc/place/strategy.h says.")
{
    plb_bins_t of = {0};
    double bound = 0.0;
    of.n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&of.cost, &of.n), PLB_ONE(&of.m), PLB_MANY(&of.length, &of.n),
                      PLB_ONE(&of.capacity), PLB_ONE(&of.equal), PLB_MANY(&of.was, &of.n)));
    int32_t *bin = plb_py_new(c, NPY_INT32, of.n);
    double *sum = plb_py_new(c, NPY_FLOAT64, of.m);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_bins_pack(&of, bin, sum, &bound, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NNd", plb_py_out(c, bin), plb_py_out(c, sum), bound));
}

/* Add LOOKS_AT: the parts of a snapshot that may influence a placement, with their bits. */
static int constants(PyObject *module)
{
    return plb_py_add_value(
        module, "LOOKS_AT",
        Py_BuildValue("{sisisisisisisi}", "load", PLB_LOOKS_LOAD, "communication", PLB_LOOKS_COMM,
                      "bytes", PLB_LOOKS_BYTES, "coords", PLB_LOOKS_COORDS, "nodes",
                      PLB_LOOKS_NODES, "speed", PLB_LOOKS_SPEED, "memory", PLB_LOOKS_MEMORY));
}

/* ---- distributed strategies ----------------------------------------------------------------- */

static const plb_strategy_t *distributed(const char *name, int64_t n_params)
{
    const plb_strategy_t *s = plb_strategy_find(name);
    if (plb_py_refuse(s == NULL || s->agent == NULL, PyExc_ValueError,
                      "'%s' is not a distributed strategy of the table", name)) {
        return NULL;
    }
    if (plb_py_refuse(n_params != s->n_params, PyExc_ValueError,
                      "%s takes %d parameters: %lld given", s->name, s->n_params,
                      (long long)n_params)) {
        return NULL;
    }
    return s;
}

typedef struct agent {
    PLB_PY_HEAD plb_py_held_t held; /* the arrays that the agent reads */
    plb_share_t share;
    plb_agent_t *core;
} agent_t;

static int agent_init(agent_t *self, plb_py_call_t *c)
{
    plb_share_t *s = &self->share;
    plb_opts_t opts = {0};
    const char *name;
    int64_t n_params = -1, n_neighbours = -1;
    s->n = s->n_edges = -1;
    PLB_PASS(PLB_READ(
        c, PLB_ONE(&name), PLB_MANY(&opts.params, &n_params), PLB_ONE(&opts.seed),
        PLB_ONE(&s->rank), PLB_ONE(&s->n_ranks), PLB_MANY(&s->neighbour, &n_neighbours),
        PLB_ONE(&s->speed), PLB_ONE(&s->background), PLB_ONE(&s->memory_limit),
        PLB_ONE(&s->lenient), PLB_MANY(&s->id, &s->n), PLB_MANY(&s->load, &s->n),
        PLB_MANY(&s->memory, &s->n), PLB_MANY(&s->migratable, &s->n),
        PLB_MANY(&s->edge_object, &s->n_edges), PLB_MANY(&s->edge_peer_id, &s->n_edges),
        PLB_MANY(&s->edge_peer_rank, &s->n_edges), PLB_MANY(&s->edge_bytes, &s->n_edges)));
    s->n_neighbours = n_neighbours < 0 ? 0 : (int32_t)n_neighbours;
    const plb_strategy_t *strategy = distributed(name, n_params);
    PLB_PASS(strategy == NULL);
    self->core = plb_agent_new(strategy->agent, s, &opts, &c->err);
    self->held = c->held; /* the agent needs the arrays as long as it exists */
    c->held.n = 0;
    return self->core != NULL ? PLB_OK : c->err.code;
}

static void agent_fini(agent_t *self)
{
    plb_agent_destroy(self->core);
    plb_py_release(&self->held);
}

PLB_PY_DEF(agent, round, "notes tally:T", "Do one round.")
{
    static const plb_py_field_t tally[] = {PLB_PY_FIELD(plb_tally_t, sum[0]),
                                           PLB_PY_FIELD(plb_tally_t, sum[1]),
                                           PLB_PY_FIELD(plb_tally_t, max[0]),
                                           PLB_PY_FIELD(plb_tally_t, max[1]),
                                           PLB_PY_FIELD(plb_tally_t, count[0]),
                                           PLB_PY_FIELD(plb_tally_t, count[1]),
                                           {0}};
    PyObject *received, *total;
    plb_tally_t all;
    PLB_PASS(PLB_READ(c, PLB_ONE(&received), PLB_ONE(&total)));
    PLB_PASS(plb_py_fill(c, tally, total, &all));
    PLB_PASS(plb_py_refuse(self->core->done, PyExc_RuntimeError, "there are no more rounds"));
    PyArrayObject *notes = plb_py_records(received, sizeof(plb_note_t), false);
    PLB_PASS(notes == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, plb_agent_round(self->core, PyArray_DATA(notes), PyArray_SIZE(notes), &all, &c->err)));
    const int64_t bytes = self->core->n_notes * (int64_t)sizeof *self->core->note;
    return plb_py_answer(
        c, Py_BuildValue("NN", PyBytes_FromStringAndSize((const char *)self->core->note, bytes),
                         plb_py_tuple(tally, &self->core->mine)));
}

static const plb_py_def_t *const agent_methods[] = {&agent_round, NULL};

static PyObject *rank_of(const agent_t *self)
{
    return self->core->done ? plb_py_copy(self->core->answer, self->share.n, NPY_INT32)
                            : PyErr_Format(PyExc_RuntimeError,
                                           "the placement is not known before the last round");
}

#define AGENT(X)                                                                                  \
    X(agent, done, PyBool_FromLong(self->core->done), "Whether the placement is known.")          \
    X(agent, rank, rank_of(self), "New rank of each of this rank's own objects, (n,) int32.")     \
    X(agent, memory, PyLong_FromLongLong(self->core->now.memory),                                 \
      "Bytes of the objects that are on this rank under the new placement.")                      \
    X(agent, times, Py_BuildValue("dd", self->core->own_before, self->core->own_after),           \
      "Seconds of this rank in an iteration, before and after the LB step.")
PLB_PY_PROPERTIES(agent, AGENT)

PLB_PY_TYPE(agent, "pylb._core.Agent",
            "strategy params seed rank n_ranks neighbours:? speed background memory_limit lenient "
            "id load memory:? migratable:? edge_object edge_peer_id edge_peer_rank edge_bytes",
            "One rank in a distributed placement; csrc/place/strategy.h explains the arguments.",
            {Py_tp_getset, agent_getset}, )

PLB_PY_DEF(fn, traffic, "snapshot strategy params seed",
           "Run a distributed strategy on virtual ranks.")
{
    PyObject *object;
    const char *name;
    int64_t n_params = -1;
    plb_opts_t opts = {0};
    plb_snapshot_t in;
    plb_traffic_t t = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&name), PLB_MANY(&opts.params, &n_params),
                      PLB_ONE(&opts.seed)));
    PLB_PASS(plb_py_snapshot(c, object, &in));
    const plb_strategy_t *strategy = distributed(name, n_params);
    PLB_PASS(strategy == NULL);
    int32_t *rank = plb_py_new(c, NPY_INT32, in.n_objects);
    int64_t *const counts = plb_py_new2(c, NPY_INT64, 3, in.n_ranks);
    PLB_PASS(counts == NULL);
    memset(counts, 0, 3 * (size_t)in.n_ranks * sizeof *counts);
    t.messages = counts;
    t.bytes = counts + in.n_ranks;
    t.held = counts + 2 * (int64_t)in.n_ranks;
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_rounds_run(strategy->agent, &in, &opts, rank, &t, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NLN", plb_py_sealed(c, rank), (long long)t.rounds,
                                          plb_py_sealed(c, counts)));
}

static const plb_py_def_t *const methods[] = {&fn_strategies, &fn_place,   &fn_copies, &fn_pack,
                                              &fn_apportion,  &fn_traffic, NULL};

const plb_py_room_t plb_py_place = {methods, {&agent_spec}, constants};
