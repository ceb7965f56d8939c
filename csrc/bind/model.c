/* Python binding of csrc/model: snapshots, traces, metrics, performance models, topologies. */
#include "bind/convert.h"

#include "bind/rooms.h"
#include "model/machine.h"

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
#define VIEW(name, type, count)                                                                   \
    {                                                                                             \
        PyObject *value = PyObject_GetAttrString(object, #name);                                  \
        const int failed =                                                                        \
            value == NULL || plb_py_view(&call->held, value, #name, type, count, &out->name);     \
        Py_XDECREF(value);                                                                        \
        if (failed) {                                                                             \
            return -1;                                                                            \
        }                                                                                         \
    }
    PLB_PY_SNAPSHOT(VIEW)
#undef VIEW
    /* check again: the caller can have changed its arrays since it made the snapshot */
    return plb_snapshot_check(out, &call->err);
}

int plb_py_trace(plb_py_call_t *c, PyObject *object, plb_trace_t *out)
{
    *out = (plb_trace_t){0};
    int64_t n = -1, m, p, figures, two = 2;
    PLB_PASS(plb_py_fields(c, object, "n_phases n_ranks entity_key:@",
                           PLB_TABLE(PLB_ONE(&out->n_phases), PLB_ONE(&out->n_ranks),
                                     PLB_MANY(&out->entity_key, &n))));
    out->n_entities = n;
    m = out->n_phases;
    p = out->n_ranks;
    figures = m * PLB_N_TRACE_FIGURES;
    PLB_PASS(plb_py_fields(
        c, object,
        "entity_migratable:@? task_ptr:+ edge_ptr:+ speed:@? background:@? "
        "memory_limit:@? node_memory_limit:@? node:@? near:@? figures:@? measured:@? _repeats:@? "
        "core_group:@? "
        "group_cores:@? waits",
        PLB_TABLE(PLB_MANY(&out->entity_migratable, &n), PLB_MANY(&out->task_ptr, &m),
                  PLB_MANY(&out->edge_ptr, &m), PLB_MANY(&out->speed, &p),
                  PLB_MANY(&out->background, &p), PLB_MANY(&out->memory_limit, &p),
                  PLB_MANY(&out->node_memory_limit, &p), PLB_MANY(&out->node, &p),
                  PLB_MANY(&out->near, &two), PLB_MANY(&out->figures, &figures),
                  PLB_MANY(&out->measured, &p), PLB_MANY(&out->repeats, &m),
                  PLB_MANY(&out->core_group, &p), PLB_MANY(&out->group_cores, &p),
                  PLB_ONE(&out->waits))));
    int64_t tasks = out->task_ptr[m], edges = out->edge_ptr[m], coords = 3 * tasks, parts;
    PLB_PASS(plb_py_fields(c, object, "n_subphases", PLB_TABLE(PLB_ONE(&out->n_subphases))));
    parts = tasks * out->n_subphases;
    return plb_py_fields(
        c, object,
        "task_subphases:@? task_entity:@? task_rank:@? task_home:@? task_load:@? task_seconds:@? "
        "task_bytes:@? "
        "task_memory:@? task_coords:@? task_work:@? task_migratable:@? edge_src:@? edge_dst:@? "
        "edge_bytes:@? edge_messages:@? edge_multicast:@?",
        PLB_TABLE(PLB_MANY(&out->task_subphases, &parts), PLB_MANY(&out->task_entity, &tasks),
                  PLB_MANY(&out->task_rank, &tasks), PLB_MANY(&out->task_home, &tasks),
                  PLB_MANY(&out->task_load, &tasks), PLB_MANY(&out->task_seconds, &tasks),
                  PLB_MANY(&out->task_bytes, &tasks), PLB_MANY(&out->task_memory, &tasks),
                  PLB_MANY(&out->task_coords, &coords), PLB_MANY(&out->task_work, &tasks),
                  PLB_MANY(&out->task_migratable, &tasks), PLB_MANY(&out->edge_src, &edges),
                  PLB_MANY(&out->edge_dst, &edges), PLB_MANY(&out->edge_bytes, &edges),
                  PLB_MANY(&out->edge_messages, &edges), PLB_MANY(&out->edge_multicast, &edges)));
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

/* ---- performance models --------------------------------------------------------------------- */

/* Read the models; set *p to their number, and *points to the number of all their points. */
static int read_models(plb_py_call_t *c, plb_fpm_t *models, int64_t *p, int64_t *points)
{
    *p = *points = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&models->start, p), PLB_MANY(&models->rows, points),
                      PLB_MANY(&models->speed, points)));
    models->p = (int32_t)*p;
    return plb_py_refuse(
        *p < 1 || *p >= INT32_MAX || !plb_py_rises(models->start, *p, *points), PyExc_ValueError,
        "start: expected 2 or more rising numbers, from 0 to the number of points");
}

PLB_PY_DEF(fn, fpm_check, "start:+ rows speed",
           "Raise an error that describes the first invalid model, if there is one.")
{
    plb_fpm_t models;
    int64_t p, points;
    PLB_PASS(read_models(c, &models, &p, &points));
    return plb_fpm_check(&models, &c->err);
}

PLB_PY_DEF(fn, fpm_times, "start:+ rows speed ... parts",
           "Return the seconds of each rank for its parts[p] rows, as the models predict them.")
{
    plb_fpm_t models;
    int64_t p, points;
    const double *parts;
    double *seconds;
    PLB_PASS(read_models(c, &models, &p, &points));
    PLB_PASS(PLB_READ(c, PLB_MANY(&parts, &p)));
    PLB_PASS((seconds = plb_py_new(c, NPY_FLOAT64, p)) == NULL);
    PLB_PASS(plb_fpm_check(&models, &c->err));
    plb_fpm_times(&models, parts, seconds);
    return plb_py_answer(c, plb_py_out(c, seconds));
}

PLB_PY_DEF(fn, fpm_update, "start:+ rows speed ... parts seconds",
           "Return (start, rows, speed) of the models, updated with a measurement: parts[p]\n"
           "rows took seconds[p] on each rank.")
{
    plb_fpm_t models;
    int64_t p, points;
    const int64_t *parts;
    const double *seconds;
    PLB_PASS(read_models(c, &models, &p, &points));
    PLB_PASS(PLB_READ(c, PLB_MANY(&parts, &p), PLB_MANY(&seconds, &p)));
    int64_t *start = plb_malloc((size_t)p + 1, sizeof *start);
    double *rows = plb_malloc((size_t)(points + p), sizeof *rows);
    double *speed = plb_malloc((size_t)(points + p), sizeof *speed);
    if (start == NULL || rows == NULL || speed == NULL) {
        PLB_FREE(start, rows, speed);
        plb_py_no_memory();
        return -1;
    }
    plb_fpm_update(&models, parts, seconds, start, rows, speed);
    const int64_t n = start[p];
    return plb_py_answer(c, Py_BuildValue("NNN", plb_py_take(start, p + 1, NPY_INT64),
                                          plb_py_take(rows, n, NPY_FLOAT64),
                                          plb_py_take(speed, n, NPY_FLOAT64)));
}

static int check_and_split(const plb_fpm_t *models, int64_t n, int64_t *parts, double *seconds,
                           plb_err_t *err)
{
    PLB_PASS(plb_fpm_check(models, err));
    return plb_fpm_split(models, n, parts, seconds, err);
}

PLB_PY_DEF(fn, fpm_split, "start:+ rows speed ... n",
           "Return integers parts[p] with the sum n, such that all ranks end at nearly the same\n"
           "time; and the seconds that all ranks would take if parts were real numbers.")
{
    plb_fpm_t models;
    int64_t p, points, n;
    double seconds = 0.0;
    PLB_PASS(read_models(c, &models, &p, &points));
    PLB_PASS(PLB_READ(c, PLB_ONE(&n)));
    int64_t *parts = plb_py_new(c, NPY_INT64, p);
    PLB_PASS(PLB_PY_UNLOCKED(c, check_and_split(&models, n, parts, &seconds, &c->err)));
    return plb_py_answer(c, Py_BuildValue("Nd", plb_py_out(c, parts), seconds));
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
                           "expected rows with a number for each rank"));
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

PLB_PY_DEF(
    fn, shared_times, "group cores loads:@",
    "Return the seconds of k iterations on ranks that share cores.  group, cores: (p,), see\n"
    "csrc/model/machine.h.  loads: (k, p), seconds of a core.")
{
    return on_shared_cores(c, true);
}

PLB_PY_DEF(fn, loads_without_waits, "group cores ends:@",
           "Return the seconds of a core, (k * p,), of ranks that finished after ends[k, p]\n"
           "seconds of k iterations, in which they waited for one another's cores.")
{
    return on_shared_cores(c, false);
}

/* ---- topologies ----------------------------------------------------------------------------- */

typedef struct question {
    plb_topology_t machine;
    plb_flows_t flows;
    const int32_t *place, *group;
} question_t;

/* Check that data[m] are in 0 ... n-1 and, if `once` is true, that none is repeated. */
static int check_range(plb_py_call_t *c, const char *name, const int32_t *data, int64_t m,
                       int32_t n, bool once)
{
    char *seen = plb_py_memory(c, n, 1);
    for (int64_t k = 0; seen != NULL && k < m; k++) {
        PLB_PASS(plb_py_refuse(data[k] < 0 || data[k] >= n, PyExc_IndexError,
                               "%s[%lld] is %d: expected 0 ... %d", name, (long long)k, data[k],
                               n - 1));
        PLB_PASS(plb_py_refuse(seen[data[k]] && once, PyExc_ValueError,
                               "%s[%lld] is %d, like an entry before it", name, (long long)k,
                               data[k]));
        seen[data[k]] = 1;
    }
    return seen != NULL ? 0 : -1;
}

static int read_question(plb_py_call_t *c, bool groups, question_t *q)
{
    bool torus;
    const int64_t *sizes;
    int64_t n_sizes = -1, parts = -1, m = -1, bytes = -1, places = -1, grouped = -1;
    const plb_py_arg_t args[] = {PLB_ONE(&torus),
                                 PLB_MANY(&sizes, &n_sizes),
                                 PLB_MANY(&q->flows.start, &parts),
                                 PLB_MANY(&q->flows.to, &m),
                                 PLB_MANY(&q->flows.bytes, &bytes),
                                 PLB_MANY(&q->place, &places),
                                 groups ? (plb_py_arg_t)PLB_MANY(&q->group, &grouped)
                                        : (plb_py_arg_t){0},
                                 {0}};
    PLB_PASS(plb_py_read(c, args));
    PLB_PASS(plb_topology_init(&q->machine, torus ? PLB_TORUS : PLB_TREE, sizes, (int)n_sizes,
                               &c->err));
    const int32_t n = q->machine.n_places;
    const struct {
        const char *name;
        int64_t is, expected;
    } lengths[] = {{"start", parts + 1, n + 1},
                   {"to", m, parts == n ? q->flows.start[n] : m},
                   {"bytes", bytes, m},
                   {"place", places, n},
                   {"group", groups ? grouped : n, n}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        PLB_PASS(plb_py_refuse(lengths[i].is != lengths[i].expected, PyExc_ValueError,
                               "%s has %lld entries: expected %lld", lengths[i].name,
                               (long long)lengths[i].is, (long long)lengths[i].expected));
    }
    for (int32_t i = 0; i < n; i++) {
        PLB_PASS(plb_py_refuse(
            q->flows.start[i] < (i > 0 ? q->flows.start[i - 1] : 0) || q->flows.start[i] > m,
            PyExc_ValueError, "start[%d] is %lld: expected rising numbers, 0 ... %lld", i,
            (long long)q->flows.start[i], (long long)m));
    }
    PLB_PASS(check_range(c, "to", q->flows.to, m, n, false));
    PLB_PASS(check_range(c, "place", q->place, n, n, true));
    return 0;
}

static int measure(const question_t *q, double *sum, double *most, plb_err_t *err)
{
    *sum = plb_hop_bytes(&q->machine, &q->flows, q->place);
    return plb_topology_link(&q->machine, &q->flows, q->place, most, err);
}

PLB_PY_DEF(fn, hop_bytes, "torus sizes start:+ to bytes place",
           "Return the hop-bytes (sum of bytes times hops), and the bytes over the busiest link.")
{
    question_t q;
    double sum = 0.0, most = 0.0;
    PLB_PASS(read_question(c, false, &q));
    PLB_PASS(PLB_PY_UNLOCKED(c, measure(&q, &sum, &most, &c->err)));
    return plb_py_answer(c, Py_BuildValue("dd", sum, most));
}

PLB_PY_DEF(fn, map_parts, "torus sizes start:+ to bytes place group",
           "Return a new place for each part, such that the hop-bytes are at most those of the\n"
           "given `place`.  Two parts change places only if they have the same number in `group`.")
{
    question_t q;
    int32_t *place;
    PLB_PASS(read_question(c, true, &q));
    PLB_PASS((place = plb_py_new(c, NPY_INT32, q.machine.n_places)) == NULL);
    memcpy(place, q.place, (size_t)q.machine.n_places * sizeof *place);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_topology_map(&q.machine, &q.flows, q.group, place, &c->err)));
    return plb_py_answer(c, plb_py_sealed(c, place));
}

static const plb_py_def_t *const methods[] = {&fn_metrics,
                                              &fn_rank_times,
                                              &fn_phase_times,
                                              &fn_evaluate,
                                              &fn_check_snapshot,
                                              &fn_fpm_check,
                                              &fn_fpm_times,
                                              &fn_fpm_update,
                                              &fn_fpm_split,
                                              &fn_shared_times,
                                              &fn_loads_without_waits,
                                              &fn_hop_bytes,
                                              &fn_map_parts,
                                              NULL};

const plb_py_room_t plb_py_model = {methods, {NULL}, NULL};
