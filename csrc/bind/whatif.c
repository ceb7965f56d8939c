/* Python binding of csrc/whatif: simulates a recorded program on another machine; the critical
 * path, also of a changed program. */
#include "bind/convert.h"

#include "whatif/whatif.h"

typedef struct simulation {
    PLB_PY_HEAD plb_whatif_t *it;
    PyObject *kept; /* dict from a rank to its arrays of operations and times: keeps these alive */
    int32_t n_ranks;
} simulation_t;

static int simulation_init(simulation_t *self, plb_py_call_t *c)
{
    PyObject *start, *member;
    plb_target_t t = {0};
    plb_comms_t comms;
    int64_t n_ranks = -1, p = -1, nodes = -1, n = -1, alphas = -1, betas = -1, shares = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&start), PLB_ONE(&member), PLB_MANY(&t.place, &n_ranks),
                      PLB_MANY(&t.speed, &p), PLB_MANY(&t.node, &n), PLB_MANY(&t.alpha, &alphas),
                      PLB_MANY(&t.beta, &betas), PLB_MANY(&t.share, &shares), PLB_ONE(&t.period),
                      PLB_ONE(&t.overhead), PLB_ONE(&t.eager)));
    PLB_PASS(plb_py_comms(&c->held, start, member, &comms));
    for (nodes = 0; nodes * nodes < alphas; nodes++) {
    }
    PLB_PASS(plb_py_refuse(
        n != p || nodes * nodes != alphas || betas != alphas || shares != p, PyExc_ValueError,
        "speed, node, share: expected one entry for each processor; alpha, beta: "
        "one for each pair of nodes"));
    t.n_processors = (int32_t)p;
    t.n_nodes = (int32_t)nodes;
    self->n_ranks = (int32_t)n_ranks;
    PLB_PASS((self->kept = PyDict_New()) == NULL);
    self->it = plb_whatif_new(self->n_ranks, &comms, &t, &c->err);
    return self->it != NULL ? PLB_OK : c->err.code;
}

static void simulation_fini(simulation_t *self)
{
    plb_whatif_destroy(self->it);
    Py_XDECREF(self->kept);
}

PLB_PY_DEF(simulation, feed, "rank ops closed steps",
           "Pass all operations of a rank that are known so far.  closed: whether these are all.\n"
           "steps: an array that gets the times of these operations, one record each; or None.")
{
    int32_t rank;
    bool closed;
    PyObject *ops, *steps;
    PLB_PASS(PLB_READ(c, PLB_ONE(&rank), PLB_ONE(&ops), PLB_ONE(&closed), PLB_ONE(&steps)));
    PLB_PASS(plb_py_refuse(rank < 0 || rank >= self->n_ranks, PyExc_IndexError,
                           "rank is %d: expected 0 ... %d", (int)rank, (int)self->n_ranks - 1));
    PyArrayObject *op = plb_py_records(ops, sizeof(plb_op_t), false), *step = NULL;
    PLB_PASS(op == NULL);
    if (steps != Py_None) {
        PLB_PASS((step = plb_py_records(steps, sizeof(plb_op_time_t), true)) == NULL);
    }
    PLB_PASS(plb_py_refuse(step != NULL && PyArray_SIZE(step) < PyArray_SIZE(op), PyExc_ValueError,
                           "steps has fewer records than there are operations"));
    PLB_PASS(plb_whatif_feed(self->it, rank, PyArray_DATA(op), PyArray_SIZE(op), closed,
                             step ? PyArray_DATA(step) : NULL, &c->err));
    PyObject *key = PyLong_FromLong(rank), *pair = PyTuple_Pack(2, ops, steps);
    const int failed = key == NULL || pair == NULL || PyDict_SetItem(self->kept, key, pair) != 0;
    Py_XDECREF(key);
    Py_XDECREF(pair);
    return plb_py_answer(c, failed ? NULL : Py_NewRef(Py_None));
}

PLB_PY_DEF(simulation, comms, "start member", "Set all communicators that are known so far.")
{
    PyObject *start, *member;
    plb_comms_t comms;
    PLB_PASS(PLB_READ(c, PLB_ONE(&start), PLB_ONE(&member)));
    PLB_PASS(plb_py_comms(&c->held, start, member, &comms));
    return plb_whatif_comms(self->it, &comms, &c->err);
}

PLB_PY_DEF(simulation, run, "",
           "Simulate until a rank's operation is missing.  Returns this rank; -1: finished.")
{
    int32_t missing = -1;
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_whatif_run(self->it, &missing, &c->err)));
    return plb_py_answer(c, PyLong_FromLong(missing));
}

PLB_PY_DEF(
    simulation, times, "",
    "Return (p, 7) float64.  For each rank: the seconds at which it ended, or which it has\n"
    "reached; seconds of work, of waiting in MPI, and of pauses; number of operations done;\n"
    "how it ended (a plb_end_t); number of messages to it that it has not received.")
{
    plb_process_times_t *times = plb_py_memory(c, self->n_ranks, sizeof *times);
    double *to = times ? plb_py_new2(c, NPY_FLOAT64, self->n_ranks, 7) : NULL;
    PLB_PASS(to == NULL);
    plb_whatif_times(self->it, times);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        const plb_process_times_t *t = &times[r];
        const double row[7] = {t->finish,       t->busy, t->waiting, t->paused,
                               (double)t->done, t->end,  t->unread};
        memcpy(to + 7 * r, row, sizeof row);
    }
    return plb_py_answer(c, plb_py_out(c, to));
}

static const plb_py_def_t *const simulation_methods[] = {&simulation_feed, &simulation_comms,
                                                         &simulation_run, &simulation_times, NULL};

PLB_PY_TYPE(simulation, "pylb._core.Simulation",
            "comm_start comm_member place speed node alpha:@ beta:@ share period overhead eager",
            "Simulates recorded operations on a machine; see csrc/whatif/whatif.h.", )

PLB_PY_DEF(
    fn, op_layout, "",
    "Return (fields, kinds, collectives, one-sided).  fields: (name, NumPy type, offset) of\n"
    "each field of a recorded operation; the others: names in order of number.")
{
#define X(name, help) #name,
    static const char *const kinds[] = {PLB_OPS(X)};
#undef X
#define X(name) #name,
    static const char *const collectives[] = {PLB_COLLECTIVES(X)};
#undef X
#define FIELD(name, type)                                                                         \
    {                                                                                             \
#name, type, (int)offsetof(plb_op_t, name)                                                \
    }
    static const struct {
        const char *name, *type;
        int offset;
    } fields[] = {FIELD(compute, "i8"), FIELD(begin, "i8"), FIELD(bytes, "i8"),
                  FIELD(inside, "f4"),  FIELD(peer, "i4"),  FIELD(tag, "i4"),
                  FIELD(request, "i4"), FIELD(comm, "i4"),  FIELD(kind, "u1"),
                  FIELD(flags, "u1"),   FIELD(what, "u2")};
#undef FIELD
    PyObject *layout = PyList_New(0);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        plb_py_append(&layout,
                      Py_BuildValue("ssi", fields[i].name, fields[i].type, fields[i].offset));
    }
    return plb_py_answer(c, Py_BuildValue("NNNN", layout, plb_py_names(kinds, PLB_N_OPS),
                                          plb_py_names(collectives, PLB_N_COLLECTIVES),
                                          plb_py_names(plb_one_sided_names, PLB_N_ONE_SIDED)));
}

static int constants(PyObject *module)
{
    PyObject *flags = Py_BuildValue("{sisisisisisi}", "SAME_CALL", PLB_OP_SAME_CALL, "ANY_SOURCE",
                                    PLB_OP_ANY_SOURCE, "ANY_TAG", PLB_OP_ANY_TAG, "SYNCHRONOUS",
                                    PLB_OP_SYNCHRONOUS, "BUFFERED", PLB_OP_BUFFERED, "CANCELLED",
                                    PLB_OP_CANCELLED);
    return plb_py_add_value(module, "OP_FLAGS", flags);
}

/* ---- the critical path ---------------------------------------------------------------------- */

typedef struct recording {
    plb_streams_t streams;
    plb_pairing_t pairing;
} recording_t;

/* View the arrays of a recording, and find the send of each receive. */
static int view(plb_py_call_t *c, PyObject *ops, PyObject *start, PyObject *member,
                recording_t *out)
{
    *out = (recording_t){0};
    /* View the operations of each rank, a list of contiguous arrays of records, which are
     * borrowed. */
    const Py_ssize_t p = PyList_GET_SIZE(ops);
    const plb_op_t **op = plb_py_memory(c, p, sizeof *op);
    int64_t *n = op ? plb_py_memory(c, p, sizeof *n) : NULL;
    for (Py_ssize_t r = 0; n != NULL && r < p; r++) {
        PyArrayObject *a = plb_py_records(PyList_GET_ITEM(ops, r), sizeof(plb_op_t), false);
        PLB_PASS(a == NULL);
        op[r] = PyArray_DATA(a);
        n[r] = PyArray_SIZE(a);
    }
    out->streams.n_ranks = (int32_t)p;
    out->streams.op = op;
    out->streams.n = n;
    PLB_PASS(n == NULL);
    PLB_PASS(plb_py_comms(&c->held, start, member, &out->streams.comms));
    return PLB_PY_UNLOCKED(c, plb_pairing_make(&out->streams, &out->pairing, &c->err));
}

/* Compute the lengths for each query (change, procedure, from, to, kept, alpha, beta): a row of
 * lengths[queries, p] and an entry of stuck[queries]. */
static int all_lengths(plb_py_call_t *c, const recording_t *run, PyObject *queries,
                       plb_path_hop_t *const *hop, int64_t *lengths, int32_t *stuck)
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
                                                     lengths + i * run->streams.n_ranks, hop,
                                                     stuck + i, &c->err)));
    }
    return 0;
}

/* View the arrays of hops, one for each rank; an empty list gives NULL. */
static int view_hops(plb_py_call_t *c, const recording_t *run, PyObject *list,
                     plb_path_hop_t ***hop)
{
    const Py_ssize_t p = PyList_GET_SIZE(list);
    *hop = NULL;
    if (p == 0) {
        return 0;
    }
    PLB_PASS(plb_py_refuse(p != run->streams.n_ranks, PyExc_ValueError,
                           "hops: expected an array for each rank"));
    PLB_PASS((*hop = plb_py_memory(c, p, sizeof **hop)) == NULL);
    for (Py_ssize_t r = 0; r < p; r++) {
        PyArrayObject *a = plb_py_records(PyList_GET_ITEM(list, r), sizeof(plb_path_hop_t), true);
        PLB_PASS(a == NULL);
        PLB_PASS(plb_py_refuse(PyArray_SIZE(a) != run->streams.n[r], PyExc_ValueError,
                               "hops: expected one for each operation"));
        (*hop)[r] = PyArray_DATA(a);
    }
    return 0;
}

PLB_PY_DEF(fn, path_lengths, "ops:L comm_start comm_member queries:L hops:L=[]",
           "Return the lengths of the critical path if the program were changed.  For each\n"
           "query: the nanoseconds of the longest path to each rank's end, (queries, p) int64,\n"
           "and the number of ranks that would wait forever.  queries: a list of (change,\n"
           "procedure, from, to, kept, alpha, beta); csrc/whatif/whatif.h explains them.  hops:\n"
           "arrays of plb_path_hop_t for the operations of each rank, set by the last query.")
{
    PyObject *ops, *start, *member, *queries, *hops = NULL, *out = NULL;
    recording_t run;
    plb_path_hop_t **hop = NULL;
    int64_t *lengths;
    int32_t *stuck;
    PLB_PASS(PLB_READ(c, PLB_ONE(&ops), PLB_ONE(&start), PLB_ONE(&member), PLB_ONE(&queries),
                      PLB_ONE(&hops)));
    if (view(c, ops, start, member, &run) == 0 &&
        (hops == NULL || view_hops(c, &run, hops, &hop) == 0) &&
        (lengths = plb_py_new2(c, NPY_INT64, PyList_GET_SIZE(queries), run.streams.n_ranks)) &&
        (stuck = plb_py_new(c, NPY_INT32, PyList_GET_SIZE(queries))) &&
        all_lengths(c, &run, queries, hop, lengths, stuck) == 0) {
        out = Py_BuildValue("NN", plb_py_out(c, lengths), plb_py_out(c, stuck));
    }
    plb_pairing_free(&run.pairing);
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const methods[] = {&fn_op_layout, &fn_path_lengths, NULL};

static int more(PyObject *module)
{
    return constants(module) || plb_py_add_value(module, "PATH_CHANGES",
                                                 Py_BuildValue("iii", PLB_PATH_NOTHING,
                                                               PLB_PATH_MOVED, PLB_PATH_ZEROED));
}

const plb_py_room_t plb_py_whatif = {methods, {&simulation_spec}, more};
