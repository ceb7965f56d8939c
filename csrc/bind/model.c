/* Python binding of csrc/model: snapshots, traces, metrics, performance models. */
#include "bind/convert.h"
#include "bind/rooms.h"

int plb_py_snapshot(plb_py_call_t *call, PyObject *object, plb_snapshot_t *out)
{
    *out = (plb_snapshot_t){0};
    PLB_PY_PASS(
        plb_py_fields(call, object,
                      "n_objects:l n_ranks:i n_components:i n_edges:l n_multicasts:l n_pins:l "
                      "n_blocks:i",
                      &out->n_objects, &out->n_ranks, &out->n_components, &out->n_edges,
                      &out->n_multicasts, &out->n_pins, &out->n_blocks));
    const int64_t n = out->n_objects, d = out->n_components, p = out->n_ranks, m = out->n_edges;
    const int64_t c = out->n_multicasts, pins = out->n_pins, b = out->n_blocks;
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
    return plb_py_check(call, plb_snapshot_check(out, &call->err));
}

int plb_py_trace(plb_py_call_t *c, PyObject *object, plb_trace_t *out)
{
    *out = (plb_trace_t){0};
    int64_t n = -1, m, p, figures;
    PLB_PY_PASS(plb_py_fields(c, object, "n_phases:l n_ranks:i entity_key:i8@", &out->n_phases,
                              &out->n_ranks, &out->entity_key, &n));
    out->n_entities = n;
    m = out->n_phases;
    p = out->n_ranks;
    figures = m * PLB_N_TRACE_FIGURES;
    PLB_PY_PASS(plb_py_fields(
        c, object,
        "entity_migratable:b1@? task_ptr:i8+ edge_ptr:i8+ speed:f8@? "
        "background:f8@? memory_limit:i8@? figures:f8@? measured:f8@? _repeats:u1@? "
        "core_group:i4@? group_cores:f8@? waits:p",
        &out->entity_migratable, &n, &out->task_ptr, &m, &out->edge_ptr, &m, &out->speed, &p,
        &out->background, &p, &out->memory_limit, &p, &out->figures, &figures, &out->measured, &p,
        &out->repeats, &m, &out->core_group, &p, &out->group_cores, &p, &out->waits));
    int64_t tasks = out->task_ptr[m], edges = out->edge_ptr[m], coords = 3 * tasks;
    return plb_py_fields(
        c, object,
        "task_entity:i4@? task_rank:i4@? task_home:i4@? task_load:f8@? task_seconds:f8@? "
        "task_bytes:i8@? task_memory:i8@? task_coords:f8@? task_work:f8@? task_migratable:b1@? "
        "edge_src:i4@? edge_dst:i4@? edge_bytes:f8@? edge_messages:f8@? edge_multicast:i4@?",
        &out->task_entity, &tasks, &out->task_rank, &tasks, &out->task_home, &tasks,
        &out->task_load, &tasks, &out->task_seconds, &tasks, &out->task_bytes, &tasks,
        &out->task_memory, &tasks, &out->task_coords, &coords, &out->task_work, &tasks,
        &out->task_migratable, &tasks, &out->edge_src, &edges, &out->edge_dst, &edges,
        &out->edge_bytes, &edges, &out->edge_messages, &edges, &out->edge_multicast, &edges);
}

PLB_PY_FN(metrics, "time:f8", "Return every metric of the ranks' times time[p], as a dict.")
{
    const double *time;
    int64_t p = -1;
    PLB_PY_TRY(plb_py_parse(c, &time, &p));
    PLB_PY_RAISE_IF(p == 0, PyExc_ValueError, "time is empty: expected one entry for each rank");
    plb_metrics_t m;
    plb_metrics_of(time, (int32_t)p, &m);
    return plb_py_metrics(&m);
}

/* Read the arguments (snapshot, rank=None) as views, and check them; *rank is NULL for None. */
static int snapshot_and_rank(plb_py_call_t *c, plb_snapshot_t *snapshot, const int32_t **rank)
{
    PyObject *object;
    int64_t n = -1;
    *rank = NULL;
    PLB_PY_PASS(plb_py_parse(c, &object, rank, &n));
    PLB_PY_PASS(plb_py_snapshot(c, object, snapshot));
    if (*rank != NULL && n != snapshot->n_objects) {
        PLB_PY_RAISE(PLB_ERR_VALUE,
                     "placement has %lld entries: expected %lld, one for each object",
                     (long long)n, (long long)snapshot->n_objects);
        return -1;
    }
    return *rank == NULL ? 0
                         : plb_py_check(c, plb_snapshot_check_placement(snapshot, *rank, &c->err));
}

PLB_PY_FN(rank_times, "snapshot:O rank:i4?=None",
          "Return each rank's seconds per iteration in the placement `rank` (None: present).")
{
    plb_snapshot_t snapshot;
    const int32_t *rank;
    double *time;
    PLB_PY_TRY(snapshot_and_rank(c, &snapshot, &rank));
    PLB_PY_GET(time = plb_py_new(c, NPY_FLOAT64, snapshot.n_ranks));
    plb_snapshot_rank_times(&snapshot, rank, time);
    return plb_py_out(c, time);
}

PLB_PY_FN(phase_times, "snapshot:O alpha:d beta:d",
          "Like rank_times(), for the present placement, but with messages between ranks: alpha\n"
          "seconds per message and beta seconds per byte that a rank sends.")
{
    PyObject *object;
    plb_network_t network;
    plb_snapshot_t snapshot;
    PLB_PY_TRY(plb_py_parse(c, &object, &network.alpha, &network.beta));
    PLB_PY_TRY(plb_py_snapshot(c, object, &snapshot));
    double *time = plb_py_new(c, NPY_FLOAT64, snapshot.n_ranks);
    return PLB_PY_OR(c, plb_phase_times(&snapshot, NULL, network, time, &c->err),
                     plb_py_out(c, time));
}

PLB_PY_FN(evaluate, "snapshot:O rank:i4?=None",
          "Return the messages, memory and migrations of the placement `rank`, as a dict.")
{
#define X(type, name, unit, help) PLB_PY_FIELD(plb_evaluation_t, name),
    static const plb_py_field_t fields[] = {PLB_EVALUATION(X){0}};
#undef X
    plb_snapshot_t snapshot;
    const int32_t *rank;
    plb_evaluation_t e;
    PLB_PY_TRY(snapshot_and_rank(c, &snapshot, &rank));
    PLB_PY_RUN(c, plb_evaluate(&snapshot, rank, &e, &c->err));
    return plb_py_dict(fields, &e);
}

PLB_PY_FN1(check_snapshot, snapshot,
           "Raise an error for the first invalid value of a snapshot, if there is one.")
{
    plb_snapshot_t view;
    PLB_PY_TRY(plb_py_snapshot(c, snapshot, &view));
    Py_RETURN_NONE;
}

/* ---- performance models --------------------------------------------------------------------- */

/* Read the models; set *p to their number, and *points to the number of all their points. */
static int read_models(plb_py_call_t *c, plb_fpm_t *models, int64_t *p, int64_t *points)
{
    *p = *points = -1;
    PLB_PY_PASS(plb_py_parse(c, &models->start, p, &models->rows, points, &models->speed, points));
    models->p = (int32_t)*p;
    PLB_PY_REFUSE_IF(*p < 1 || *p >= INT32_MAX || !plb_py_rises(models->start, *p, *points),
                     PyExc_ValueError,
                     "start: expected 2 or more rising numbers, from 0 to the number of points");
    return 0;
}

PLB_PY_FN(fpm_check, "start:i8+ rows:f8 speed:f8",
          "Raise an error that describes the first invalid model, if there is one.")
{
    plb_fpm_t models;
    int64_t p, points;
    PLB_PY_TRY(read_models(c, &models, &p, &points));
    return PLB_PY_NONE(c, plb_fpm_check(&models, &c->err));
}

PLB_PY_FN(fpm_times, "start:i8+ rows:f8 speed:f8 ... parts:f8",
          "Return the seconds of each rank for its parts[p] rows, as the models predict them.")
{
    plb_fpm_t models;
    int64_t p, points;
    const double *parts;
    double *seconds;
    PLB_PY_TRY(read_models(c, &models, &p, &points));
    PLB_PY_TRY(plb_py_parse(c, &parts, &p));
    PLB_PY_GET(seconds = plb_py_new(c, NPY_FLOAT64, p));
    PLB_PY_TRY(plb_py_check(c, plb_fpm_check(&models, &c->err)));
    plb_fpm_times(&models, parts, seconds);
    return plb_py_out(c, seconds);
}

PLB_PY_FN(fpm_update, "start:i8+ rows:f8 speed:f8 ... parts:i8 seconds:f8",
          "Return (start, rows, speed) of the models, updated with a measurement: parts[p]\n"
          "rows took seconds[p] on each rank.")
{
    plb_fpm_t models;
    int64_t p, points;
    const int64_t *parts;
    const double *seconds;
    PLB_PY_TRY(read_models(c, &models, &p, &points));
    PLB_PY_TRY(plb_py_parse(c, &parts, &p, &seconds, &p));
    int64_t *start = plb_malloc((size_t)p + 1, sizeof *start);
    double *rows = plb_malloc((size_t)(points + p), sizeof *rows);
    double *speed = plb_malloc((size_t)(points + p), sizeof *speed);
    if (start == NULL || rows == NULL || speed == NULL) {
        PLB_FREE(start, rows, speed);
        return plb_py_no_memory();
    }
    plb_fpm_update(&models, parts, seconds, start, rows, speed);
    const int64_t n = start[p];
    return Py_BuildValue("NNN", plb_py_take(start, p + 1, NPY_INT64),
                         plb_py_take(rows, n, NPY_FLOAT64), plb_py_take(speed, n, NPY_FLOAT64));
}

static int check_and_split(const plb_fpm_t *models, int64_t n, int64_t *parts, double *seconds,
                           plb_err_t *err)
{
    const int ret = plb_fpm_check(models, err);
    return ret == PLB_OK ? plb_fpm_split(models, n, parts, seconds, err) : ret;
}

PLB_PY_FN(fpm_split, "start:i8+ rows:f8 speed:f8 ... n:l",
          "Return integers parts[p] with the sum n, such that all ranks end at nearly the same\n"
          "time; and the seconds that all ranks would take if parts were real numbers.")
{
    plb_fpm_t models;
    int64_t p, points, n;
    double seconds = 0.0;
    PLB_PY_TRY(read_models(c, &models, &p, &points));
    PLB_PY_TRY(plb_py_parse(c, &n));
    int64_t *parts = plb_py_new(c, NPY_INT64, p);
    PLB_PY_RUN(c, check_and_split(&models, n, parts, &seconds, &c->err));
    return Py_BuildValue("Nd", plb_py_out(c, parts), seconds);
}

/* Evaluate the rows of x[k, p], one for each iteration: either their times (k,), or the loads
 * without waits (k, p). */
static PyObject *on_shared_cores(plb_py_call_t *c, bool times)
{
    plb_sharing_t sharing;
    const int32_t *group;
    const double *cores, *x;
    int64_t p = -1, n = -1;
    PLB_PY_TRY(plb_py_parse(c, &group, &p, &cores, &p, &x, &n));
    PLB_PY_RAISE_IF(p < 1 || n % p != 0, PyExc_ValueError,
                    "expected rows with a number for each rank");
    PLB_PY_TRY(plb_py_check(c, plb_sharing_init(&sharing, group, cores, (int32_t)p, &c->err)));
    double *out = plb_py_new(c, NPY_FLOAT64, times ? n / p : n);
    for (int64_t i = 0; out != NULL && i < n / p; i++) {
        if (times) {
            out[i] = plb_sharing_time(&sharing, x + i * p);
        } else {
            plb_sharing_loads(&sharing, x + i * p, out + i * p);
        }
    }
    plb_sharing_free(&sharing);
    return out == NULL ? NULL : plb_py_out(c, out);
}

PLB_PY_FN(
    shared_times, "group:i4 cores:f8 loads:f8@",
    "Return the seconds of k iterations on ranks that share cores.  group, cores: (p,), see\n"
    "csrc/model/sharing.h.  loads: (k, p), seconds of a core.")
{
    return on_shared_cores(c, true);
}

PLB_PY_FN(
    loads_without_waits, "group:i4 cores:f8 ends:f8@",
    "Return the seconds of a core, (k * p,), of ranks that finished after ends[k, p] seconds\n"
    "of k iterations, in which they waited for one another's cores.")
{
    return on_shared_cores(c, false);
}

static PyMethodDef methods[] =
    PLB_PY_METHODS(fn, metrics, rank_times, phase_times, evaluate, check_snapshot, fpm_check,
                   fpm_times, fpm_update, fpm_split, shared_times, loads_without_waits);

const plb_py_room_t plb_py_model = {methods, {NULL}, NULL};
