/* Python binding of csrc/place: strategies, also Python callables; rows and rectangles. */
#include "bind/convert.h"
#include "bind/rooms.h"
#include "place/bins.h"
#include "place/copies.h"

static PyObject *copies(const plb_snapshot_t *s)
{
    const int64_t n = s->n_objects, d = s->n_components, p = s->n_ranks, m = s->n_edges;
    const int64_t c = s->n_multicasts, pins = s->n_pins, b = s->n_blocks;
    PyObject *out = PyDict_New();
    int failed = out == NULL;
#define COPY(name, type, count)                                                                   \
    failed = failed || plb_py_put(out, #name, plb_py_copy(s->name, count, type)) != 0;
    PLB_PY_SNAPSHOT(COPY)
#undef COPY
    if (failed) {
        Py_CLEAR(out);
    }
    return out;
}

static PyObject *python_snapshot(const plb_snapshot_t *s)
{
    PyObject *arrays = copies(s);
    PyObject *module = arrays ? PyImport_ImportModule("pylb.model.snapshot") : NULL;
    PyObject *out = module ? PyObject_CallMethod(module, "from_core", "iiO", (int)s->n_ranks,
                                                 (int)s->n_components, arrays)
                           : NULL;
    Py_XDECREF(module);
    Py_XDECREF(arrays);
    return out;
}

/* Call the callable through pylb.placing.registry, which checks the answer. */
static int ask(PyObject *callable, const plb_snapshot_t *in, int32_t *out)
{
    PyObject *snapshot = python_snapshot(in);
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
    (void)opts;
    PyGILState_STATE state = PyGILState_Ensure();
    const int failed = ask(self->user, in, out);
    PyGILState_Release(state);
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "the strategy has raised an error") : PLB_OK;
}

int plb_py_strategy(PyObject *object, plb_strategy_t *out)
{
    if (!PyUnicode_Check(object)) {
        *out = (plb_strategy_t){
            .name = "python", .looks_at = ~0u, .run = run_callable, .user = object};
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
           "for_equal_objects) of every strategy.")
{
    PyObject *out = PyList_New(0);
    for (const plb_strategy_t *const *at = plb_strategies; *at != NULL; at++) {
        const plb_strategy_t *s = *at;
        const char *family = s->family == PLB_COMPREHENSIVE ? "comprehensive" : "refinement";
        plb_py_append(&out, Py_BuildValue("ssIssNNzN", s->name, family, s->looks_at, s->help,
                                          s->source, plb_py_params(s->params, s->n_params),
                                          PyBool_FromLong(s->agent != NULL), s->library,
                                          PyBool_FromLong(s->for_equal_objects)));
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
           "Run one strategy: a name or a callable; params in the order of the strategy's\n"
           "table.  Returns (rank, before, after, migrations, bytes, seconds).  before, after:\n"
           "metrics of the old and the new placement, as dicts.  The GIL is released.")
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
    PLB_PASS(plb_py_refuse(p < 1 || n < 0 || n > PLB_FPM_MOST_ROWS, PyExc_ValueError,
                           "share: expected one or more entries; n: expected 0 ... %lld",
                           PLB_FPM_MOST_ROWS));
    int64_t *parts = plb_py_new(c, NPY_INT64, p);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_apportion(share, (int32_t)p, n, parts, &c->err)));
    return plb_py_answer(c, plb_py_out(c, parts));
}

static int check_shares(int64_t p)
{
    PLB_PASS(plb_py_refuse(p < 1 || p >= INT32_MAX, PyExc_ValueError,
                           "share: expected one or more entries, one for each rank"));
    return 0;
}

PLB_PY_DEF(fn, rectangles_columns, "share rows cols column:?=None",
           "Return (column[p], perimeter) of rectangles with areas in proportion to share[p].\n"
           "perimeter: the sum of the half perimeters of all rectangles.  column, the column of\n"
           "each rectangle, is returned as given; None: it is chosen to minimize this sum.")
{
    const double *share;
    const int32_t *old = NULL;
    double rows, cols, perimeter = 0.0;
    int64_t n = -1;
    int32_t *column;
    PLB_PASS(
        PLB_READ(c, PLB_MANY(&share, &n), PLB_ONE(&rows), PLB_ONE(&cols), PLB_MANY(&old, &n)));
    PLB_PASS(check_shares(n));
    PLB_PASS((column = plb_py_new(c, NPY_INT32, n)) == NULL);
    const int32_t p = (int32_t)n;
    if (old != NULL) {
        memcpy(column, old, (size_t)p * sizeof *column);
    }
    const int ret =
        old ? plb_rectangles_perimeter(share, column, p, rows, cols, &perimeter, &c->err)
            : plb_rectangles_columns(share, p, rows, cols, column, &perimeter, &c->err);
    PLB_PASS(ret);
    return plb_py_answer(c, Py_BuildValue("Nd", plb_py_out(c, column), perimeter));
}

PLB_PY_DEF(fn, rectangles_place, "share column rows cols",
           "Return box[p, 4]: first row, last row + 1, first column, last column + 1 of each box.")
{
    const double *share;
    const int32_t *column;
    int64_t p = -1, rows, cols;
    PLB_PASS(
        PLB_READ(c, PLB_MANY(&share, &p), PLB_MANY(&column, &p), PLB_ONE(&rows), PLB_ONE(&cols)));
    PLB_PASS(check_shares(p));
    int64_t *box = plb_py_new2(c, NPY_INT64, p, 4);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, plb_rectangles_place(share, column, (int32_t)p, rows, cols, box, &c->err)));
    return plb_py_answer(c, plb_py_out(c, box));
}

PLB_PY_DEF(fn, copies,
           "load:@ first n_objects previous:@? . memory:? limit:? bytes:? group:? node:? n_groups "
           "n_nodes tolerance move even",
           "Place layers of objects that may have several copies, as csrc/place/copies.h says.\n"
           "The arguments have been checked.  Returns (slot, share, times, migrations):\n"
           "times[layers, 3] (max, mean, bound) and migrations[layers, 2] (copies, bytes).")
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
           "Deal items out to bins, as csrc/place/bins.h says.  The arguments have been checked.\n"
           "Returns (bin, sum, bound).")
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

static const plb_py_def_t *const methods[] = {
    &fn_strategies,       &fn_place, &fn_copies, &fn_pack, &fn_apportion, &fn_rectangles_columns,
    &fn_rectangles_place, NULL};

/* Add LOOKS_AT: the parts of a snapshot that may influence a placement, with their bits. */
static int constants(PyObject *module)
{
    return plb_py_add_value(
        module, "LOOKS_AT",
        Py_BuildValue("{sisisisisisisi}", "load", PLB_LOOKS_LOAD, "communication", PLB_LOOKS_COMM,
                      "bytes", PLB_LOOKS_BYTES, "coords", PLB_LOOKS_COORDS, "nodes",
                      PLB_LOOKS_NODES, "speed", PLB_LOOKS_SPEED, "memory", PLB_LOOKS_MEMORY));
}

const plb_py_room_t plb_py_place = {methods, {NULL}, constants};
