/* Python binding of csrc/replay: the replay of a recorded run, and the best schedule of LB
 * steps. */
#include "bind/views.h"
#include "comm/share.h"

/* View a pylb.Trace, or any object with the same attributes. */
static int read_trace(plb_py_call_t *c, PyObject *object, plb_trace_t *out)
{
    *out = (plb_trace_t){0};
    int64_t n = -1, m, p, figures, two = 2;
    PLB_PASS(plb_py_fields(c, object, "n_phases n_ranks n_subphases entity_key:@",
                           PLB_TABLE(PLB_ONE(&out->n_phases), PLB_ONE(&out->n_ranks),
                                     PLB_ONE(&out->n_subphases), PLB_MANY(&out->entity_key, &n))));
    out->n_entities = n;
    m = out->n_phases;
    p = out->n_ranks;
    figures = m * PLB_N_TRACE_FIGURES;
    PLB_PASS(plb_py_fields(
        c, object,
        "entity_migratable:@? task_ptr:+ edge_ptr:+ speed:@? background:@? "
        "memory_limit:@? node_memory_limit:@? node:@? near:@? figures:@? measured:@? "
        "core_group:@? group_cores:@? waits",
        PLB_TABLE(PLB_MANY(&out->entity_migratable, &n), PLB_MANY(&out->task_ptr, &m),
                  PLB_MANY(&out->edge_ptr, &m), PLB_MANY(&out->speed, &p),
                  PLB_MANY(&out->background, &p), PLB_MANY(&out->memory_limit, &p),
                  PLB_MANY(&out->node_memory_limit, &p), PLB_MANY(&out->node, &p),
                  PLB_MANY(&out->near, &two), PLB_MANY(&out->figures, &figures),
                  PLB_MANY(&out->measured, &p), PLB_MANY(&out->core_group, &p),
                  PLB_MANY(&out->group_cores, &p), PLB_ONE(&out->waits))));
    int64_t tasks = out->task_ptr[m], edges = out->edge_ptr[m], coords = 3 * tasks, parts;
    int64_t blocks = -1;
    parts = tasks * out->n_subphases;
    PLB_PASS(plb_py_fields(
        c, object,
        "task_block:@? block_bytes:@? block_home:@? task_subphases:@? task_entity:@? task_rank:@? "
        "task_home:@? task_load:@? task_seconds:@? task_bytes:@? task_memory:@? task_coords:@? "
        "task_work:@? task_migratable:@? edge_src:@? edge_dst:@? "
        "edge_bytes:@? edge_messages:@? edge_multicast:@?",
        PLB_TABLE(PLB_MANY(&out->task_block, &tasks), PLB_MANY(&out->block_bytes, &blocks),
                  PLB_MANY(&out->block_home, &blocks), PLB_MANY(&out->task_subphases, &parts),
                  PLB_MANY(&out->task_entity, &tasks), PLB_MANY(&out->task_rank, &tasks),
                  PLB_MANY(&out->task_home, &tasks), PLB_MANY(&out->task_load, &tasks),
                  PLB_MANY(&out->task_seconds, &tasks), PLB_MANY(&out->task_bytes, &tasks),
                  PLB_MANY(&out->task_memory, &tasks), PLB_MANY(&out->task_coords, &coords),
                  PLB_MANY(&out->task_work, &tasks), PLB_MANY(&out->task_migratable, &tasks),
                  PLB_MANY(&out->edge_src, &edges), PLB_MANY(&out->edge_dst, &edges),
                  PLB_MANY(&out->edge_bytes, &edges), PLB_MANY(&out->edge_messages, &edges),
                  PLB_MANY(&out->edge_multicast, &edges))));
    out->n_blocks = out->block_bytes == NULL ? 0 : (int32_t)blocks;
    return 0;
}

typedef struct replay {
    PLB_PY_HEAD plb_replay_t core;
    PyObject *decider;          /* owned, or None */
    PyObject *advisor;          /* owned, or None */
    plb_measured_step_t *steps; /* owned */
} replay_t;

static int replay_init(replay_t *self, plb_py_call_t *c)
{
    plb_replay_opts_t o = {.moves = true, .cost = NAN, .model = {.pace = 1.0}};
    PyObject *decider = Py_None, *advisor = Py_None, *steps = NULL;
    PLB_PASS(PLB_READ(
        c, PLB_ONE(&o.n_ranks), PLB_ONE(&decider), PLB_ONE(&advisor), PLB_ONE(&o.ahead),
        PLB_ONE(&o.lag), PLB_ONE(&o.as_recorded), PLB_ONE(&o.foresight), PLB_ONE(&o.moves),
        PLB_ONE(&o.network.alpha), PLB_ONE(&o.cost), PLB_ONE(&o.model.alpha), PLB_ONE(&o.per_move),
        PLB_ONE(&o.per_byte), PLB_ONE(&steps), PLB_ONE(&o.keep_times), PLB_ONE(&o.keep_ranks)));
    PLB_PASS(decider != Py_None && (o.decider = plb_py_decider(decider)) == NULL);
    o.advisor = advisor == Py_None ? NULL : plb_py_advisor(advisor);
    /* Read the measured LB steps from a list of tuples; the replay keeps them. */
    static const plb_py_field_t fields[] = {
        PLB_PY_FIELD(plb_measured_step_t, iteration),  PLB_PY_FIELD(plb_measured_step_t, strategy),
        PLB_PY_FIELD(plb_measured_step_t, migrations), PLB_PY_FIELD(plb_measured_step_t, bytes),
        PLB_PY_FIELD(plb_measured_step_t, statistics), PLB_PY_FIELD(plb_measured_step_t, placing),
        PLB_PY_FIELD(plb_measured_step_t, migration),  PLB_PY_FIELD(plb_measured_step_t, whole),
        PLB_PY_FIELD(plb_measured_step_t, hidden),     {0}};
    const Py_ssize_t n = steps == NULL ? 0 : PyList_GET_SIZE(steps);
    self->steps = plb_malloc((size_t)n, sizeof *self->steps);
    if (self->steps == NULL) {
        plb_py_no_memory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PLB_PASS(plb_py_fill(c, fields, PyList_GET_ITEM(steps, i), &self->steps[i]));
    }
    o.steps = self->steps;
    o.n_steps = n;
    self->decider = Py_NewRef(decider);
    self->advisor = Py_NewRef(advisor);
    return plb_replay_init(&self->core, &o, &c->err);
}

static void replay_fini(replay_t *self)
{
    plb_replay_free(&self->core);
    plb_free(self->steps);
    Py_XDECREF(self->decider);
    Py_XDECREF(self->advisor);
}

PLB_PY_DEF(replay, loop, "first n cost moving=nan",
           "Begin a loop of n iterations with the numbers `first`, first + 1, ...")
{
    plb_loop_t loop = {.moving = NAN};
    PLB_PASS(PLB_READ(c, PLB_ONE(&loop.first), PLB_ONE(&loop.n), PLB_ONE(&loop.cost),
                      PLB_ONE(&loop.moving)));
    return plb_replay_loop(&self->core, &loop, &c->err);
}

PLB_PY_DEF(replay, feed, "!trace", "Replay phases.  An object keeps its index in all calls.")
{
    plb_trace_t phases;
    PLB_PASS(read_trace(c, c->arg, &phases));
    return PLB_PY_UNLOCKED(c, plb_replay_feed(&self->core, &phases, &c->err));
}

PLB_PY_DEF(replay, settle, "left early=False begins=False",
           "Let the decider observe the last phase before the next one is known.")
{
    PyObject *left = Py_None;
    bool early = false, begins = false;
    plb_trace_t trace;
    PLB_PASS(PLB_READ(c, PLB_ONE(&left), PLB_ONE(&early), PLB_ONE(&begins)));
    PLB_PASS(left != Py_None && read_trace(c, left, &trace) != 0);
    return PLB_PY_UNLOCKED(c, plb_replay_settle(&self->core, left == Py_None ? NULL : &trace,
                                                early, begins, &c->err));
}

PLB_PY_DEF(replay, metrics, "begin",
           "Return (metrics, (n, 9) float64; seconds) of the phases from number `begin` on.")
{
    plb_replay_t *core = &self->core;
    int64_t begin;
    PLB_PASS(PLB_READ(c, PLB_ONE(&begin)));
    const int64_t n = core->n, first = core->first;
    PLB_PASS(plb_py_refuse(begin < first || begin > n, PyExc_ValueError,
                           "begin is %lld: expected %lld ... %lld", (long long)begin,
                           (long long)first, (long long)n));
    plb_replay_forget(core, begin);
    const int64_t at = begin - core->first;
    const bool any = begin < n;
    PyObject *metrics = plb_py_copy2(any ? core->metrics + at : NULL, n - begin,
                                     sizeof *core->metrics / sizeof(double), NPY_FLOAT64);
    return plb_py_answer(c, Py_BuildValue("NN", metrics,
                                          plb_py_copy(any ? core->seconds + at : &core->opt.cost,
                                                      n - begin, NPY_FLOAT64)));
}

PLB_PY_DEF(replay, take, "", "Return (rank of each task, time of each rank in each phase).")
{
    const plb_replay_t *core = &self->core;
    return plb_py_answer(
        c, Py_BuildValue("NN", plb_py_copy(core->rank, core->tasks, NPY_INT32),
                         core->times != NULL
                             ? plb_py_copy2(core->times, core->n, core->opt.n_ranks, NPY_FLOAT64)
                             : Py_NewRef(Py_None)));
}

static const plb_py_def_t *const replay_methods[] = {&replay_loop,    &replay_feed, &replay_settle,
                                                     &replay_metrics, &replay_take, NULL};

PLB_PY_TYPE(
    replay, "pylb._core.Replay",
    "* n_ranks decider=None advisor=None ahead=0 lag=0 as_recorded=False foresight=False "
    "moves=True network:2=None cost=nan model:5=None per_move=0.0 per_byte=0.0 steps:L=[] "
    "keep_times=False keep_ranks=False",
    "Replays a recorded run: plb_replay_opts_t, plb_measured_step_t (csrc/replay/replay.h).", )

PLB_PY_DEF(fn, trace_optimum, "trace strategies:T cost seed width upper",
           "Return the best schedule: (seconds, phases at whose end to rebalance, lower bound of\n"
           "the seconds, whether it is proven to be the best, index of each LB step's strategy).")
{
    PyObject *object, *rows;
    plb_trace_t trace;
    plb_optimum_t best;
    plb_optimum_opts_t opts = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&rows), PLB_ONE(&opts.cost),
                      PLB_ONE(&opts.seed), PLB_ONE(&opts.width), PLB_ONE(&opts.upper)));
    const Py_ssize_t n = PyTuple_GET_SIZE(rows);
    plb_candidate_strategy_t *strategy = plb_py_candidates(c, rows);
    PLB_PASS(strategy == NULL);
    PLB_PASS(read_trace(c, object, &trace));
    int ret = PLB_PY_UNLOCKED(
        c, plb_optimum_of_trace(&best, &trace, strategy, (int32_t)n, &opts, &c->err));
    if (ret == PLB_OK) {
        ret = plb_py_answer(c, Py_BuildValue("dNdNN", best.time,
                                             best.when ? plb_py_copy(best.when, best.n, NPY_INT64)
                                                       : plb_py_copy(&best.n, 0, NPY_INT64),
                                             best.bound, PyBool_FromLong(best.exact),
                                             plb_py_copy(best.which, best.n, NPY_INT32)));
    }
    plb_optimum_free(&best);
    return ret;
}

PLB_PY_DEF(
    fn, lending_times, "alone:@ speed longest bytes",
    "Return the seconds, (k,), of k iterations in which ranks lend each other work if that pays.")
{
    const double *alone, *speed, *longest, *bytes;
    int64_t n = -1, p = -1, k = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&alone, &n), PLB_MANY(&speed, &p), PLB_MANY(&longest, &k),
                      PLB_MANY(&bytes, &k)));
    PLB_PASS(plb_py_refuse(n != k * p, PyExc_ValueError, "expected one number for each rank"));
    double *out = plb_py_new(c, NPY_FLOAT64, k);
    plb_share_offer_t *offer = plb_py_new(c, NPY_BYTE, p * (int64_t)sizeof *offer);
    plb_share_flow_t *flow = plb_py_new(c, NPY_BYTE, p * (int64_t)sizeof *flow);
    PLB_PASS(out == NULL || offer == NULL || flow == NULL);
    for (int64_t i = 0; i < k; i++) {
        out[i] =
            plb_share_step(alone + i * p, speed, (int32_t)p, longest[i], bytes[i], offer, flow);
    }
    return plb_py_answer(c, plb_py_out(c, out));
}

static const plb_py_def_t *const methods[] = {&fn_trace_optimum, &fn_lending_times, NULL};

const plb_py_room_t plb_py_replay = {methods, {&replay_spec}, NULL};
