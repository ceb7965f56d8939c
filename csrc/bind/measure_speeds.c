/* Python binding of csrc/measure: speeds of ranks; computing power in DRUM's tree of a machine. */
#include <math.h>

#include "bind/convert.h"
#include "bind/rooms.h"

PLB_PY_FN(drum_power, "parent:i4 cpu:f8 comm:f8 w_comm:d",
          "Return the share of the work of each place (node, socket, core) of a machine; the\n"
          "root has 1.  parent: each place's parent, an earlier place.  See csrc/measure/drum.h.")
{
    plb_drum_t tree = {.n = -1};
    double w_comm;
    PLB_PY_TRY(
        plb_py_parse(c, &tree.parent, &tree.n, &tree.cpu, &tree.n, &tree.comm, &tree.n, &w_comm));
    PLB_PY_RAISE_IF(tree.n < 1, PyExc_ValueError, "parent is empty: expected a tree of places");
    double *power = plb_py_new(c, NPY_FLOAT64, tree.n);
    return PLB_PY_OR(c, plb_drum_power(&tree, w_comm, power, &c->err), plb_py_out(c, power));
}

PLB_PY_FN(drum_benchmark, "seconds:d",
          "Run a benchmark for `seconds`, at most 10.  Returns steps, wall and processor seconds.")
{
    double seconds, cpu = 0.0, steps;
    PLB_PY_TRY(plb_py_parse(c, &seconds));
    const int64_t start = plb_clock_real_ns(PLB_CLOCK_WALL);
    PLB_PY_ASIDE(c, steps = plb_drum_benchmark(seconds < 10.0 ? seconds : 10.0, &cpu));
    const double wall = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_WALL) - start);
    return Py_BuildValue("ddd", steps, wall, cpu);
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, drum_power, drum_benchmark);

typedef struct learner {
    PLB_PY_HEAD plb_learner_t core;
} learner_t;

static int learner_init(learner_t *self, plb_py_call_t *c)
{
    int32_t n_ranks;
    PLB_PY_PASS(plb_py_parse(c, &n_ranks));
    return plb_py_check(c, plb_learner_init(&self->core, n_ranks, &c->err));
}

static void learner_fini(learner_t *self)
{
    if (self->core.p > 0) {
        plb_learner_free(&self->core);
    }
}

PLB_PY_METHOD(learner, observe, "key:i8 rank:i4 seconds:f8 work:f8?",
              "Add the objects' seconds in a placement.  work: the user's estimates, or None.")
{
    const int64_t *key;
    const int32_t *rank;
    const double *seconds, *work;
    int64_t n = -1;
    PLB_PY_TRY(plb_py_parse(c, &key, &n, &rank, &n, &seconds, &n, &work, &n));
    PLB_PY_RUN(c, plb_learner_observe(&self->core, n, key, rank, seconds, work, &c->err));
    Py_RETURN_NONE;
}

static PyMethodDef learner_methods[] = PLB_PY_METHODS(learner, observe);

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
      "(csrc/measure/learner.h).")
PLB_PY_PROPERTIES(learner, LEARNER)

PLB_PY_TYPE(learner, "pylb._core.SpeedLearner", "n_ranks:i",
            "Learns speeds of ranks from successive placements.", {Py_tp_getset, learner_getset}, )

typedef struct repeats {
    PLB_PY_HEAD plb_repeats_t core;
} repeats_t;

static int repeats_init(repeats_t *self, plb_py_call_t *c)
{
    int32_t n_ranks;
    PLB_PY_PASS(plb_py_parse(c, &n_ranks));
    return plb_py_check(c, plb_repeats_init(&self->core, n_ranks, &c->err));
}

static void repeats_fini(repeats_t *self)
{
    plb_repeats_free(&self->core);
}

PLB_PY_METHOD0(repeats, begin, "Forget the mean times, because the ranks have new parts.")
{
    plb_repeats_begin(&self->core);
    Py_RETURN_NONE;
}

PLB_PY_METHOD(
    repeats, observe, "seconds:f8@ busy:b1@",
    "Add a measurement.  busy: whether each rank had rows.  Returns True; or False if a time\n"
    "is far from the mean of its rank for the first time: then the next measurement shows\n"
    "whether the rank has changed.")
{
    const double *seconds;
    const bool *busy;
    int64_t p = self->core.p;
    PLB_PY_TRY(plb_py_parse(c, &seconds, &p, &busy, &p));
    return PyBool_FromLong(plb_repeats_observe(&self->core, seconds, busy));
}

PLB_PY_METHOD(
    repeats, predicted, "seconds:f8@ expected:f8@ which:b1@",
    "Learn how large the noise is, by comparing measured times with times that were\n"
    "predicted from measurements of nearly the same parts.  which: the ranks to compare.")
{
    const double *seconds, *expected;
    const bool *which;
    int64_t p = self->core.p;
    PLB_PY_TRY(plb_py_parse(c, &seconds, &p, &expected, &p, &which, &p));
    plb_repeats_predicted(&self->core, seconds, expected, which);
    Py_RETURN_NONE;
}

PLB_PY_METHOD(repeats, choose, "now:d bold:d bold_paging:d safe:d tolerance:d",
              "Choose between three sets of parts, by the predicted seconds of the slowest\n"
              "rank.  Returns 0: the present parts; 1: the parts of the models (bold); 2:\n"
              "parts that avoid paging (safe).  csrc/measure/repeats.h explains the arguments.")
{
    plb_prospects_t p;
    PLB_PY_TRY(plb_py_parse(c, &p.now, &p.bold, &p.bold_paging, &p.safe, &p.tolerance));
    return PyLong_FromLong(plb_repeats_choose(&self->core, &p));
}

static PyMethodDef repeats_methods[] = PLB_PY_METHODS(repeats, begin, observe, predicted, choose);

#define REPEATS(X)                                                                                \
    X(repeats, mean, plb_py_copy(self->core.mean, self->core.p, NPY_FLOAT64),                     \
      "Mean seconds of each rank, (p,).")                                                         \
    X(repeats, n, plb_py_copy(self->core.n, self->core.p, NPY_INT64),                             \
      "Number of measurements in each mean, (p,) int64.")
PLB_PY_PROPERTIES(repeats, REPEATS)

PLB_PY_TYPE(repeats, "pylb._core.Repeats", "n_ranks:i",
            "Judges repeated measurements of the same parts (the rows of each rank).",
            {Py_tp_getset, repeats_getset}, )

const plb_py_room_t plb_py_measure_speeds = {methods, {&learner_spec, &repeats_spec}, NULL};
