/* Python binding of csrc/model: snapshots, metrics, ranks that share cores. */
#include "bind/views.h"

#include "model/model.h"

int plb_py_snapshot(plb_py_call_t *call, PyObject *object, plb_snapshot_t *out)
{
    *out = (plb_snapshot_t){0};
    PLB_PASS(plb_py_fields(
        call, object,
        "n_objects n_ranks n_components n_speeds n_edges n_multicasts n_pins n_blocks",
        PLB_TABLE(PLB_ONE(&out->n_objects), PLB_ONE(&out->n_ranks), PLB_ONE(&out->n_components),
                  PLB_ONE(&out->n_speeds), PLB_ONE(&out->n_edges), PLB_ONE(&out->n_multicasts),
                  PLB_ONE(&out->n_pins), PLB_ONE(&out->n_blocks))));
    const int64_t n = out->n_objects, d = out->n_components, p = out->n_ranks, m = out->n_edges;
    const int64_t c = out->n_multicasts, pins = out->n_pins, b = out->n_blocks;
    const int64_t v = out->n_speeds;
#define SPEC(name, type, count) #name ":@? "
#define TARGET(name, type, count) PLB_MANY(&out->name, &(int64_t){count}),
    PLB_PASS(plb_py_fields(call, object, PLB_PY_SNAPSHOT(SPEC),
                           (const plb_py_arg_t[]){PLB_PY_SNAPSHOT(TARGET){0}}));
#undef SPEC
#undef TARGET
    /* check again: the caller can have changed its arrays since it made the snapshot */
    return plb_snapshot_check(out, &call->err);
}

PLB_PY_DEF(fn, metrics, "time", "Return every metric of the ranks' times time[p], as a dict.")
{
    const double *time;
    int64_t p = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&time, &p)));
    PLB_PASS(plb_py_refuse(p == 0, PyExc_ValueError,
                           "time is empty: expected one entry for each rank"));
    plb_metrics_t m;
    plb_metrics_of(time, (int32_t)p, &m);
    return plb_py_answer(c, plb_py_metrics(&m));
}

/* Read the arguments (snapshot, rank=None) as views, and check them; *rank is NULL for None. */
static int snapshot_and_rank(plb_py_call_t *c, plb_snapshot_t *snapshot, const int32_t **rank)
{
    PyObject *object;
    int64_t n = -1;
    *rank = NULL;
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_MANY(rank, &n)));
    PLB_PASS(plb_py_snapshot(c, object, snapshot));
    PLB_FAIL_IF(*rank != NULL && n != snapshot->n_objects, &c->err, PLB_ERR_VALUE,
                "placement has %lld entries: expected %lld, one for each object", (long long)n,
                (long long)snapshot->n_objects);
    return *rank == NULL ? 0 : plb_snapshot_check_placement(snapshot, *rank, &c->err);
}

PLB_PY_DEF(fn, rank_times, "snapshot rank:?=None",
           "Return each rank's seconds per iteration in the placement `rank` (None: present).")
{
    plb_snapshot_t snapshot;
    const int32_t *rank;
    double *time;
    PLB_PASS(snapshot_and_rank(c, &snapshot, &rank));
    PLB_PASS((time = plb_py_new(c, NPY_FLOAT64, snapshot.n_ranks)) == NULL);
    plb_snapshot_rank_times(&snapshot, rank, time);
    return plb_py_answer(c, plb_py_out(c, time));
}

PLB_PY_DEF(fn, phase_times, "snapshot alpha beta",
           "Like rank_times(), for the present placement, but with messages between ranks: alpha\n"
           "seconds per message and beta seconds per byte that a rank sends.")
{
    PyObject *object;
    plb_network_t network;
    plb_snapshot_t snapshot;
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&network.alpha), PLB_ONE(&network.beta)));
    PLB_PASS(plb_py_snapshot(c, object, &snapshot));
    double *time = plb_py_new(c, NPY_FLOAT64, snapshot.n_ranks);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_phase_times(&snapshot, NULL, network, time, &c->err)));
    return plb_py_answer(c, plb_py_out(c, time));
}

PLB_PY_DEF(fn, evaluate, "snapshot rank:?=None",
           "Return the messages, memory and migrations of the placement `rank`, as a dict.")
{
#define X(type, name, unit, help) PLB_PY_FIELD(plb_evaluation_t, name),
    static const plb_py_field_t fields[] = {PLB_EVALUATION(X){0}};
#undef X
    plb_snapshot_t snapshot;
    const int32_t *rank;
    plb_evaluation_t e;
    PLB_PASS(snapshot_and_rank(c, &snapshot, &rank));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_evaluate(&snapshot, rank, &e, &c->err)));
    return plb_py_answer(c, plb_py_dict(fields, &e));
}

PLB_PY_DEF(fn, check_snapshot, "!snapshot",
           "Raise an error for the first invalid value of a snapshot, if there is one.")
{
    plb_snapshot_t view;
    return plb_py_snapshot(c, c->arg, &view);
}

/* Evaluate the rows of x[k, p], one for each iteration: either their times (k,), or the loads
 * without waits (k, p). */
static int on_shared_cores(plb_py_call_t *c, bool times)
{
    plb_sharing_t sharing;
    const int32_t *group;
    const double *cores, *x;
    int64_t p = -1, n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&group, &p), PLB_MANY(&cores, &p), PLB_MANY(&x, &n)));
    PLB_PASS(plb_py_refuse(p < 1 || n % p != 0, PyExc_ValueError,
                           "expected rows with one number for each rank"));
    double *out = plb_py_new(c, NPY_FLOAT64, times ? n / p : n);
    PLB_PASS(out == NULL);
    PLB_PASS(plb_sharing_init(&sharing, group, cores, (int32_t)p, &c->err));
    for (int64_t i = 0; i < n / p; i++) {
        if (times) {
            out[i] = plb_sharing_time(&sharing, x + i * p);
        } else {
            plb_sharing_loads(&sharing, x + i * p, out + i * p);
        }
    }
    plb_sharing_free(&sharing);
    return plb_py_answer(c, plb_py_out(c, out));
}

PLB_PY_DEF(fn, shared_times, "group cores loads:@",
           "Return the seconds of k iterations on ranks that share cores.")
{
    return on_shared_cores(c, true);
}

PLB_PY_DEF(fn, loads_without_waits, "group cores ends:@",
           "Return the seconds of a core, (k * p,), of ranks that finished after ends[k, p]\n"
           "seconds of k iterations, in which they waited for one another's cores.")
{
    return on_shared_cores(c, false);
}

static const plb_py_def_t *const methods[] = {
    &fn_metrics,        &fn_rank_times,   &fn_phase_times,         &fn_evaluate,
    &fn_check_snapshot, &fn_shared_times, &fn_loads_without_waits, NULL};

const plb_py_room_t plb_py_model = {methods, {NULL}, NULL};
