/* Python binding of csrc/measure: samples and records; linked into pylb._core and pylb._mpi. */
#include <math.h>

#include "bind/convert.h"
#include "bind/rooms.h"

/* Set the load of this rank: the seconds of its other work, plus the exact sum of its objects'
 * loads, rounded once.  A replay computes the same number (replay/phase_loads.c). */
static int set_load(plb_stats_t *s, const double *x, int64_t n, double background)
{
    plb_exact_t sum = {{0}};
    for (int64_t i = 0; i < n; i++) {
        PLB_PY_REFUSE_IF(!(x[i] >= 0.0 && x[i] <= 1e30), PyExc_ValueError,
                         "loads[%lld]: expected 0 ... 1e30 seconds", (long long)i);
        plb_exact_add(&sum, x[i]);
    }
    s->load_max = s->load_min = background + plb_exact_value(&sum);
    plb_exact_add(&s->load_sum, s->load_max);
    return 0;
}

int plb_py_sample(PyObject *sample, int rank, plb_stats_t *out)
{
    plb_py_call_t c;
    const double *loads;
    int64_t n = -1;
    double idle, time, cost, background;
    bool failed;
    plb_stats_init(out);
    (void)plb_py_begin(&c, NULL, NULL);
    const int bad =
        plb_py_items(&c, sample,
                     "kind:l iteration:l arguments:l failed:p n_objects:l loads:f8 idle:d "
                     "messages:l message_bytes:l time:d cost:d n_changed:l n_rebalanced:l "
                     "messages_open:l background:d",
                     &out->kind, &out->iteration, &out->arguments, &failed, &out->n_objects,
                     &loads, &n, &idle, &out->messages, &out->message_bytes, &time, &cost,
                     &out->n_changed, &out->n_rebalanced, &out->messages_open, &background) != 0 ||
        set_load(out, loads, n, background) != 0;
    plb_py_end(&c, NULL);
    if (bad) {
        return -1;
    }
    out->n_ranks = 1;
    out->load_max_rank = rank;
    plb_exact_add(&out->idle_sum, fmax(idle, 0.0));
    out->utilization_min = plb_utilization(out->load_max, fmax(idle, 0.0));
    out->time_max = fmax(time, 0.0); /* a negative time counts as 0 */
    out->cost_max = fmax(cost, 0.0);
    out->failed_rank = failed ? rank : INT64_MAX;
    return 0;
}

PyObject *plb_py_stats(const plb_stats_t *s)
{
    /* mixed: whether the ranks' contributions differed where they must be equal */
    typedef struct shown {
        plb_stats_t stats;
        bool mixed;
    } shown_t;
#define X(name, type, rule, unit, help) PLB_PY_FIELD_AS(shown_t, stats.name, name),
    static const plb_py_field_t fields[] = {PLB_STATS(X) PLB_PY_FIELD(shown_t, mixed), {0}};
#undef X
    const shown_t shown = {*s, s->flags & PLB_STATS_MIXED};
    return plb_py_tuple(fields, &shown);
}
