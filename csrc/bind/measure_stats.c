/* Python binding of csrc/measure: samples and records; linked into pylb._core and pylb._mpi. */
#include <math.h>

#include "bind/views.h"

/* Add up the loads of objects exactly, and round once.  A replay computes the same number
 * (replay/phase_loads.c). */
static int add_up(const char *name, const double *x, int64_t begin, int64_t end, double *out)
{
    plb_exact_t sum = {{0}};
    for (int64_t i = begin; i < end; i++) {
        PLB_PASS(plb_py_refuse(!(x[i] >= 0.0 && x[i] <= 1e30), PyExc_ValueError,
                               "%s[%lld]: expected 0 ... 1e30 seconds", name, (long long)i));
        plb_exact_add(&sum, x[i]);
    }
    *out = plb_exact_value(&sum);
    return 0;
}

/* Set the load of this rank in each of d phases, x[d][n / d]; other work is part of the first. */
static int set_phases(plb_stats_t *s, const double *x, int64_t n, int64_t d, double background)
{
    double seconds[PLB_MOST_PHASES];
    PLB_PASS(plb_py_refuse(d > PLB_MOST_PHASES || n % d != 0, PyExc_ValueError,
                           "%lld loads in %lld phases: expected equally many in each of 1 ... %d",
                           (long long)n, (long long)d, PLB_MOST_PHASES));
    for (int64_t k = 0; k < d; k++) {
        PLB_PASS(add_up("phases", x, k * (n / d), (k + 1) * (n / d), &seconds[k]));
    }
    seconds[0] += background;
    plb_stats_set_phases(s, seconds, d);
    return 0;
}

int plb_py_sample(plb_py_call_t *c, PyObject *sample, int rank, plb_stats_t *out)
{
    const double *loads, *phases;
    int64_t n = -1, m = -1, d;
    double load, idle, time, cost, background, hidden;
    bool failed;
    plb_stats_init(out);
    PLB_PASS(plb_py_items(
        c, sample,
        "kind iteration arguments failed n_objects loads idle messages message_bytes time cost "
        "n_changed n_rebalanced messages_open background phases:@ n_phases hidden",
        PLB_TABLE(PLB_ONE(&out->kind), PLB_ONE(&out->iteration), PLB_ONE(&out->arguments),
                  PLB_ONE(&failed), PLB_ONE(&out->n_objects), PLB_MANY(&loads, &n), PLB_ONE(&idle),
                  PLB_ONE(&out->messages), PLB_ONE(&out->message_bytes), PLB_ONE(&time),
                  PLB_ONE(&cost), PLB_ONE(&out->n_changed), PLB_ONE(&out->n_rebalanced),
                  PLB_ONE(&out->messages_open), PLB_ONE(&background), PLB_MANY(&phases, &m),
                  PLB_ONE(&d), PLB_ONE(&hidden))));
    PLB_PASS(add_up("loads", loads, 0, n, &load));
    PLB_PASS(d > 0 && set_phases(out, phases, m, d, background) != 0);
    plb_py_release(&c->held); /* released early, because a call may read many samples */
    out->load_max = out->load_min = background + load;
    plb_exact_add(&out->load_sum, out->load_max);
    out->n_ranks = 1;
    out->load_max_rank = rank;
    plb_exact_add(&out->idle_sum, fmax(idle, 0.0));
    out->utilization_min = plb_utilization(out->load_max, fmax(idle, 0.0));
    out->time_max = fmax(time, 0.0); /* a negative time counts as 0 */
    out->cost_max = fmax(cost, 0.0);
    out->hidden_max = fmax(hidden, 0.0);
    out->failed_rank = failed ? rank : INT64_MAX;
    return 0;
}

/* A record as a tuple.  mixed: whether the ranks' contributions differed where they must be equal;
 * phases: a tuple of the largest load in each phase, then of the total loads.  load_max is
 * plb_stats_max, the sum over the phases if there are any. */
typedef struct shown {
    plb_stats_t stats;
    bool mixed;
    PyObject *phases;
} shown_t;
#define X(name, type, rule, unit, help) PLB_PY_FIELD(shown_t, stats.name),
static const plb_py_field_t fields[] = {
    PLB_STATS(X) PLB_PY_FIELD(shown_t, mixed), PLB_PY_FIELD(shown_t, phases), {0}};
#undef X

PyObject *plb_py_stats(const plb_stats_t *s)
{
    PyObject *out = NULL, *list = PyList_New(0);
    for (int64_t k = 0; k < s->n_phases; k++) {
        plb_py_append(&list, PyFloat_FromDouble(s->phase_max[k]));
    }
    for (int64_t k = 0; k < s->n_phases; k++) {
        plb_py_append(&list, PyFloat_FromDouble(plb_exact_value(&s->phase_sum[k])));
    }
    shown_t shown = {*s, s->flags & PLB_STATS_MIXED, plb_py_as_tuple(list)};
    shown.stats.load_max = plb_stats_max(s);
    if (shown.phases != NULL) {
        out = plb_py_tuple(fields, &shown);
        Py_DECREF(shown.phases);
    }
    return out;
}

int plb_py_record(plb_py_call_t *c, PyObject *tuple, plb_stats_t *out)
{
    shown_t shown;
    plb_stats_init(&shown.stats);
    PLB_PASS(plb_py_fill(c, fields, tuple, &shown));
    *out = shown.stats;
    for (int64_t k = 0; k < out->n_phases; k++) {
        out->phase_max[k] = PyFloat_AsDouble(PyTuple_GET_ITEM(shown.phases, k));
    }
    return 0;
}
