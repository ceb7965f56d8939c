/* Python binding of csrc/whatif/whatif.h: the critical path, also of a changed program. */
#include "bind/rooms.h"
#include "whatif/whatif.h"

#include "bind/convert.h"

typedef struct recording {
    plb_streams_t streams;
    plb_pairing_t pairing;
} recording_t;

/* View the operations of each rank, a list of contiguous arrays of records, which are borrowed. */
static int view_ops(plb_py_call_t *c, PyObject *list, recording_t *out)
{
    const Py_ssize_t p = PyList_GET_SIZE(list);
    const plb_op_t **op = plb_py_memory(c, p, sizeof *op);
    int64_t *n = op ? plb_py_memory(c, p, sizeof *n) : NULL;
    for (Py_ssize_t r = 0; n != NULL && r < p; r++) {
        PyArrayObject *a = plb_py_records(PyList_GET_ITEM(list, r), sizeof(plb_op_t), false);
        PLB_PASS(a == NULL);
        op[r] = PyArray_DATA(a);
        n[r] = PyArray_SIZE(a);
    }
    out->streams.n_ranks = (int32_t)p;
    out->streams.op = op;
    out->streams.n = n;
    return n != NULL ? 0 : -1;
}

/* View the arrays of a recording, and find the send of each receive. */
static int view(plb_py_call_t *c, PyObject *ops, PyObject *start, PyObject *member,
                recording_t *out)
{
    *out = (recording_t){0};
    PLB_PASS(view_ops(c, ops, out));
    PLB_PASS(plb_py_comms(&c->held, start, member, &out->streams.comms));
    return PLB_PY_UNLOCKED(c, plb_pairing_make(&out->streams, &out->pairing, &c->err));
}

/* Compute the lengths for each query (change, procedure, from, to, kept, alpha, beta): a row of
 * lengths[queries, p] and an entry of stuck[queries]. */
static int all_lengths(plb_py_call_t *c, const recording_t *run, PyObject *queries,
                       int64_t *lengths, int32_t *stuck)
{
    static const plb_py_field_t fields[] = {
        PLB_PY_FIELD(plb_path_query_t, change), PLB_PY_FIELD(plb_path_query_t, procedure),
        PLB_PY_FIELD(plb_path_query_t, from),   PLB_PY_FIELD(plb_path_query_t, to),
        PLB_PY_FIELD(plb_path_query_t, kept),   PLB_PY_FIELD(plb_path_query_t, alpha),
        PLB_PY_FIELD(plb_path_query_t, beta),   {0}};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(queries); i++) {
        plb_path_query_t query;
        PLB_PASS(plb_py_fill(c, fields, PyList_GET_ITEM(queries, i), &query));
        PLB_PASS(PLB_PY_UNLOCKED(c, plb_path_lengths(&run->streams, &run->pairing, &query,
                                                     lengths + i * run->streams.n_ranks, NULL,
                                                     stuck + i, &c->err)));
    }
    return 0;
}

PLB_PY_DEF(fn, path_lengths, "ops:L comm_start comm_member queries:L",
           "Return the lengths of the critical path if the program were changed.  For each\n"
           "query: the nanoseconds of the longest path to each rank's end, (queries, p) int64,\n"
           "and the number of ranks that would wait forever.  queries: a list of (change,\n"
           "procedure, from, to, kept, alpha, beta); csrc/whatif/whatif.h explains them.")
{
    PyObject *ops, *start, *member, *queries, *out = NULL;
    recording_t run;
    int64_t *lengths;
    int32_t *stuck;
    PLB_PASS(PLB_READ(c, PLB_ONE(&ops), PLB_ONE(&start), PLB_ONE(&member), PLB_ONE(&queries)));
    if (view(c, ops, start, member, &run) == 0 &&
        (lengths = plb_py_new2(c, NPY_INT64, PyList_GET_SIZE(queries), run.streams.n_ranks)) &&
        (stuck = plb_py_new(c, NPY_INT32, PyList_GET_SIZE(queries))) &&
        all_lengths(c, &run, queries, lengths, stuck) == 0) {
        out = Py_BuildValue("NN", plb_py_out(c, lengths), plb_py_out(c, stuck));
    }
    plb_pairing_free(&run.pairing);
    return plb_py_answer(c, out);
}

static plb_path_hop_t **hops_of(const plb_streams_t *streams)
{
    int64_t all = 0;
    for (int32_t r = 0; r < streams->n_ranks; r++) {
        all += streams->n[r];
    }
    plb_path_hop_t **hop = plb_malloc((size_t)streams->n_ranks + 1, sizeof *hop);
    if (hop != NULL && (hop[0] = plb_malloc((size_t)all, sizeof **hop)) == NULL) {
        plb_free(hop);
        return NULL;
    }
    for (int32_t r = 0; hop != NULL && r < streams->n_ranks; r++) {
        hop[r + 1] = hop[r] + streams->n[r];
    }
    return hop;
}

/* The results of walk(); the call holds all arrays except `stretch`, the segments of the path. */
typedef struct longest {
    int64_t *ns, *by_rank, *by_procedure;
    plb_stretch_t *stretch; /* [n] owned */
    int64_t n;
    int32_t stuck;
} longest_t;

/* Find the longest path: its segments, and how long it is on each rank and in each procedure. */
static int walk(const recording_t *run, const plb_path_query_t *query, int32_t n_procedures,
                longest_t *out, plb_err_t *err)
{
    plb_path_hop_t **hop = hops_of(&run->streams);
    PLB_FAIL_IF(hop == NULL, err, PLB_ERR_NOMEM, "out of memory for the critical path");
    int ret = PLB_OK;
    int32_t last = 0;
    PLB_TRY(plb_path_lengths(&run->streams, &run->pairing, query, out->ns, hop, &out->stuck, err));
    for (int32_t r = 1; r < run->streams.n_ranks; r++) {
        last = out->ns[r] > out->ns[last] ? r : last;
    }
    if (out->stuck == 0 && run->streams.n_ranks > 0) {
        PLB_TRY(plb_path_walk(&run->streams, hop, last, &out->stretch, &out->n, err));
    }
    PLB_TRY(plb_path_shares(&run->streams, out->stretch, out->n, n_procedures, out->by_rank,
                            out->by_procedure, err));
out:
    plb_free(hop[0]);
    plb_free(hop);
    return ret;
}

static PyObject *longest_path(plb_py_call_t *c, const recording_t *run,
                              const plb_path_query_t *query, int32_t n_procedures, longest_t *path)
{
    const int64_t p = run->streams.n_ranks, q = n_procedures + 1;
    path->ns = plb_py_zeros(c, NPY_INT64, p);
    path->by_rank = plb_py_zeros(c, NPY_INT64, p);
    path->by_procedure = plb_py_zeros(c, NPY_INT64, q);
    if (PLB_PY_UNLOCKED(c, walk(run, query, n_procedures, path, &c->err))) {
        return NULL;
    }
    int64_t *rows;
    if ((rows = plb_py_new2(c, NPY_INT64, path->n, 4)) == NULL) {
        return NULL;
    }
    for (int64_t i = 0; i < path->n; i++) {
        const plb_stretch_t *s = &path->stretch[i];
        memcpy(rows + 4 * i, (const int64_t[4]){s->rank, s->first, s->last, s->ns},
               4 * sizeof *rows);
    }
    return Py_BuildValue("NNNNi", plb_py_out(c, path->ns), plb_py_out(c, rows),
                         plb_py_out(c, path->by_rank), plb_py_out(c, path->by_procedure),
                         (int)path->stuck);
}

PLB_PY_DEF(fn, critical_path, "ops:L comm_start comm_member alpha beta n_procedures",
           "Return the nanoseconds of the longest path to each rank's end; the segments of the\n"
           "critical path, (k, 4) int64: rank, first and last operation, nanoseconds; the path's\n"
           "nanoseconds on each rank; those in each procedure, then outside of all procedures;\n"
           "and how many ranks wait forever (if any do, there are no segments).")
{
    PyObject *ops, *start, *member, *out = NULL;
    plb_path_query_t query = {.change = PLB_PATH_NOTHING, .procedure = -1};
    int32_t n_procedures;
    recording_t run;
    longest_t path = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&ops), PLB_ONE(&start), PLB_ONE(&member), PLB_ONE(&query.alpha),
                      PLB_ONE(&query.beta), PLB_ONE(&n_procedures)));
    if (view(c, ops, start, member, &run) == 0) {
        out = longest_path(c, &run, &query, n_procedures, &path);
    }
    plb_free(path.stretch);
    plb_pairing_free(&run.pairing);
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const methods[] = {&fn_path_lengths, &fn_critical_path, NULL};

static int constants(PyObject *module)
{
    return plb_py_add_value(
        module, "PATH_CHANGES",
        Py_BuildValue("iii", PLB_PATH_NOTHING, PLB_PATH_MOVED, PLB_PATH_ZEROED));
}

const plb_py_room_t plb_py_whatif_path = {methods, {NULL}, constants};
