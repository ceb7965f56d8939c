/* Python binding of csrc/measure: the statistics of an iteration; speeds of ranks; DRUM's
 * benchmark. */
#include "bind/views.h"

#include <math.h>

PLB_PY_DEF(fn, stats, "samples:L",
           "Merge the samples of ranks 0, 1, ... (a list) into one record, as pylb._mpi does.")
{
    plb_stats_t all, record;
    PyObject *samples;
    PLB_PASS(PLB_READ(c, PLB_ONE(&samples)));
    PLB_PASS(plb_py_refuse(PyList_GET_SIZE(samples) == 0, PyExc_ValueError,
                           "samples: expected one or more"));
    for (Py_ssize_t rank = 0; rank < PyList_GET_SIZE(samples); rank++) {
        PLB_PASS(plb_py_sample(c, PyList_GET_ITEM(samples, rank), (int)rank, &record));
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

PLB_PY_DEF(fn, drum_benchmark, "seconds", "Run a benchmark for `seconds`, at most 10.")
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

static PyObject *speeds_of(const plb_learner_t *learner)
{
    PyObject *out = learner->unlike ? plb_py_copy(learner->log_speed, learner->p, NPY_FLOAT64)
                                    : Py_NewRef(Py_None);
    if (out != NULL && out != Py_None) {
        plb_learner_speeds(learner, PyArray_DATA((PyArrayObject *)out));
    }
    return out;
}

#define LEARNER(X)                                                                                \
    X(learner, speed, speeds_of(&self->core),                                                     \
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

static const plb_py_def_t *const methods[] = {&fn_stats, &fn_drum_benchmark, NULL};

const plb_py_room_t plb_py_measure = {methods, {&learner_spec}, constants};
