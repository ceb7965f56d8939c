/* Python binding of csrc/measure: the statistics of an iteration; speeds of ranks; computing
 * power in DRUM's tree of a machine. */
#include "bind/rooms.h"

#include <math.h>

#include "bind/convert.h"

PLB_PY_DEF(fn, stats, "samples:L",
           "Merge the samples of ranks 0, 1, ... (a list) into one record, as pylb._mpi does.")
{
    plb_stats_t all, record;
    PyObject *samples;
    PLB_PASS(PLB_READ(c, PLB_ONE(&samples)));
    PLB_PASS(plb_py_refuse(PyList_GET_SIZE(samples) == 0, PyExc_ValueError,
                           "samples: expected one or more"));
    for (Py_ssize_t rank = 0; rank < PyList_GET_SIZE(samples); rank++) {
        PLB_PASS(plb_py_sample(PyList_GET_ITEM(samples, rank), (int)rank, &record));
        if (rank == 0) {
            all = record;
        } else {
            plb_stats_merge(&all, &record);
        }
    }
    return plb_py_answer(c, plb_py_stats(&all));
}

static int constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ESTIMATE_ROWS", PLB_ESTIMATE_ROWS) ||
           PyModule_AddIntConstant(module, "ESTIMATE_HERE", PLB_ESTIMATE_HERE) ||
           PyModule_AddIntConstant(module, "MOST_PHASES", PLB_MOST_PHASES) ||
           PyModule_AddIntConstant(module, "STATS_BYTES", sizeof(plb_stats_t));
}

/* ---- speeds --------------------------------------------------------------------------------- */

PLB_PY_DEF(
    fn, drum_power, "parent cpu comm w_comm",
    "Return the share of the work of each place (node, socket, core) of a machine; the\n"
    "root has 1.  parent: each place's parent, an earlier place.  See csrc/measure/measure.h.")
{
    plb_drum_t tree = {.n = -1};
    double w_comm;
    PLB_PASS(PLB_READ(c, PLB_MANY(&tree.parent, &tree.n), PLB_MANY(&tree.cpu, &tree.n),
                      PLB_MANY(&tree.comm, &tree.n), PLB_ONE(&w_comm)));
    PLB_PASS(
        plb_py_refuse(tree.n < 1, PyExc_ValueError, "parent is empty: expected a tree of places"));
    double *power = plb_py_new(c, NPY_FLOAT64, tree.n);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_drum_power(&tree, w_comm, power, &c->err)));
    return plb_py_answer(c, plb_py_out(c, power));
}

PLB_PY_DEF(
    fn, drum_benchmark, "seconds",
    "Run a benchmark for `seconds`, at most 10.  Returns steps, wall and processor seconds.")
{
    double seconds, cpu = 0.0, steps;
    PLB_PASS(PLB_READ(c, PLB_ONE(&seconds)));
    const int64_t start = plb_clock_real_ns(PLB_CLOCK_WALL);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, (steps = plb_drum_benchmark(seconds < 10.0 ? seconds : 10.0, &cpu), PLB_OK)));
    const double wall = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_WALL) - start);
    return plb_py_answer(c, Py_BuildValue("ddd", steps, wall, cpu));
}

typedef struct learner {
    PLB_PY_HEAD plb_learner_t core;
} learner_t;

static int learner_init(learner_t *self, plb_py_call_t *c)
{
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_ONE(&n_ranks)));
    return plb_learner_init(&self->core, n_ranks, &c->err);
}

static void learner_fini(learner_t *self)
{
    if (self->core.p > 0) {
        plb_learner_free(&self->core);
    }
}

PLB_PY_DEF(learner, observe, "key rank seconds work:?",
           "Add the objects' seconds in a placement.  work: the user's estimates, or None.")
{
    const int64_t *key;
    const int32_t *rank;
    const double *seconds, *work;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n), PLB_MANY(&rank, &n), PLB_MANY(&seconds, &n),
                      PLB_MANY(&work, &n)));
    return PLB_PY_UNLOCKED(
        c, plb_learner_observe(&self->core, n, key, rank, seconds, work, 1.0, &c->err));
}

static const plb_py_def_t *const learner_methods[] = {&learner_observe, NULL};

PyObject *plb_py_speeds(const plb_learner_t *learner)
{
    PyObject *out = learner->unlike ? plb_py_copy(learner->log_speed, learner->p, NPY_FLOAT64)
                                    : Py_NewRef(Py_None);
    if (out != NULL && out != Py_None) {
        plb_learner_speeds(learner, PyArray_DATA((PyArrayObject *)out));
    }
    return out;
}

#define LEARNER(X)                                                                                \
    X(learner, speed, plb_py_speeds(&self->core),                                                 \
      "Estimated speeds with geometric mean 1, (p,); None: the ranks seem equally fast, or "      \
      "nothing is known yet.")                                                                    \
    X(learner, error, plb_py_copy(self->core.error, self->core.p, NPY_FLOAT64),                   \
      "Standard errors of the speeds' logarithms.")                                               \
    X(learner, sigma, PyFloat_FromDouble(self->core.sigma),                                       \
      "Standard deviation of the noise in the change of a logarithm of an observed time.")        \
    X(learner, evidence, PyFloat_FromDouble(self->core.evidence),                                 \
      "Which part of the changes of moved objects the speeds predicted "                          \
      "(csrc/measure/measure.h).")
PLB_PY_PROPERTIES(learner, LEARNER)

PLB_PY_TYPE(learner, "pylb._core.SpeedLearner", "n_ranks",
            "Learns speeds of ranks from successive placements.", {Py_tp_getset, learner_getset}, )

typedef struct repeats {
    PLB_PY_HEAD plb_repeats_t core;
} repeats_t;

static int repeats_init(repeats_t *self, plb_py_call_t *c)
{
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_ONE(&n_ranks)));
    return plb_repeats_init(&self->core, n_ranks, &c->err);
}

static void repeats_fini(repeats_t *self)
{
    plb_repeats_free(&self->core);
}

PLB_PY_DEF(repeats, begin, "", "Forget the mean times, because the ranks have new parts.")
{
    plb_repeats_begin(&self->core);
    return PLB_OK;
}

PLB_PY_DEF(
    repeats, observe, "seconds:@ busy:@",
    "Add a measurement.  busy: whether each rank had rows.  Returns True; or False if a time\n"
    "is far from the mean of its rank for the first time: then the next measurement shows\n"
    "whether the rank has changed.")
{
    const double *seconds;
    const bool *busy;
    int64_t p = self->core.p;
    PLB_PASS(PLB_READ(c, PLB_MANY(&seconds, &p), PLB_MANY(&busy, &p)));
    return plb_py_answer(c, PyBool_FromLong(plb_repeats_observe(&self->core, seconds, busy)));
}

PLB_PY_DEF(repeats, predicted, "seconds:@ expected:@ which:@",
           "Learn how large the noise is, by comparing measured times with times that were\n"
           "predicted from measurements of nearly the same parts.  which: the ranks to compare.")
{
    const double *seconds, *expected;
    const bool *which;
    int64_t p = self->core.p;
    PLB_PASS(PLB_READ(c, PLB_MANY(&seconds, &p), PLB_MANY(&expected, &p), PLB_MANY(&which, &p)));
    plb_repeats_predicted(&self->core, seconds, expected, which);
    return PLB_OK;
}

PLB_PY_DEF(repeats, choose, "now bold bold_paging safe tolerance",
           "Choose between three sets of parts, by the predicted seconds of the slowest\n"
           "rank.  Returns 0: the present parts; 1: the parts of the models (bold); 2:\n"
           "parts that avoid paging (safe).  csrc/measure/measure.h explains the arguments.")
{
    plb_prospects_t p;
    PLB_PASS(PLB_READ(c, PLB_ONE(&p.now), PLB_ONE(&p.bold), PLB_ONE(&p.bold_paging),
                      PLB_ONE(&p.safe), PLB_ONE(&p.tolerance)));
    return plb_py_answer(c, PyLong_FromLong(plb_repeats_choose(&self->core, &p)));
}

static const plb_py_def_t *const repeats_methods[] = {&repeats_begin, &repeats_observe,
                                                      &repeats_predicted, &repeats_choose, NULL};

#define REPEATS(X)                                                                                \
    X(repeats, mean, plb_py_copy(self->core.mean, self->core.p, NPY_FLOAT64),                     \
      "Mean seconds of each rank, (p,).")                                                         \
    X(repeats, n, plb_py_copy(self->core.n, self->core.p, NPY_INT64),                             \
      "Number of measurements in each mean, (p,) int64.")
PLB_PY_PROPERTIES(repeats, REPEATS)

PLB_PY_TYPE(repeats, "pylb._core.Repeats", "n_ranks",
            "Judges repeated measurements of the same parts (the rows of each rank).",
            {Py_tp_getset, repeats_getset}, )

static const plb_py_def_t *const methods[] = {&fn_stats, &fn_drum_power, &fn_drum_benchmark, NULL};

const plb_py_room_t plb_py_measure = {methods, {&learner_spec, &repeats_spec}, constants};
