/* Python binding of csrc/whatif: simulates a recorded program on another machine; the critical
 * path, also of a changed program. */
#include "bind/views.h"

#include "whatif/whatif.h"

/* Read the first arguments: the operations of each rank (a list of contiguous arrays of records,
 * which are borrowed) and the communicators. */
static int read_streams(plb_py_call_t *c, plb_streams_t *out)
{
    PyObject *ops;
    int64_t comms = -1, members = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&ops), PLB_MANY(&out->comms.start, &comms),
                      PLB_MANY(&out->comms.member, &members)));
    PLB_PASS(plb_py_refuse(!plb_py_rises(out->comms.start, comms, members), PyExc_ValueError,
                           "comm_start: expected to rise from 0 to the number of members"));
    const Py_ssize_t p = PyList_GET_SIZE(ops);
    const plb_op_t **op = plb_py_memory(c, p, sizeof *op);
    int64_t *n = op ? plb_py_memory(c, p, sizeof *n) : NULL;
    PLB_PASS(n == NULL);
    for (Py_ssize_t r = 0; r < p; r++) {
        PyArrayObject *a = plb_py_records(PyList_GET_ITEM(ops, r), sizeof(plb_op_t), false);
        PLB_PASS(a == NULL);
        op[r] = PyArray_DATA(a);
        n[r] = PyArray_SIZE(a);
    }
    out->n_ranks = (int32_t)p;
    out->op = op;
    out->n = n;
    out->comms.n = (int32_t)comms;
    return 0;
}

/* View arrays of results, one for each rank and with a record for each operation. */
static int view_results(const plb_streams_t *run, PyObject *list, size_t size, void **out)
{
    PLB_PASS(plb_py_refuse(PyList_GET_SIZE(list) != run->n_ranks, PyExc_ValueError,
                           "expected an array of results for each rank"));
    for (int32_t r = 0; r < run->n_ranks; r++) {
        PyArrayObject *a = plb_py_records(PyList_GET_ITEM(list, r), size, true);
        PLB_PASS(a == NULL);
        PLB_PASS(plb_py_refuse(PyArray_SIZE(a) != run->n[r], PyExc_ValueError,
                               "expected a result for each operation"));
        out[r] = PyArray_DATA(a);
    }
    return 0;
}

PLB_PY_DEF(
    fn, simulate,
    "ops:L comm_start:+ comm_member ... place speed node alpha:@ beta:@ share period overhead "
    "eager steps:L",
    "Simulate recorded operations on a machine; see csrc/whatif/whatif.h.  steps: arrays of\n"
    "plb_op_time_t for the operations of each rank; empty: none.  Returns (p, 7) float64, for\n"
    "each rank: the seconds at which it ended; seconds of work, of waiting in MPI, and of\n"
    "pauses; number of operations done; how it ended (a plb_end_t); number of messages to it\n"
    "that it has not received.")
{
    PyObject *steps;
    plb_streams_t run;
    plb_target_t t = {0};
    int64_t n_ranks = -1, p = -1, nodes = 0, n = -1, alphas = -1, betas = -1, shares = -1;
    PLB_PASS(read_streams(c, &run));
    PLB_PASS(PLB_READ(c, PLB_MANY(&t.place, &n_ranks), PLB_MANY(&t.speed, &p),
                      PLB_MANY(&t.node, &n), PLB_MANY(&t.alpha, &alphas),
                      PLB_MANY(&t.beta, &betas), PLB_MANY(&t.share, &shares), PLB_ONE(&t.period),
                      PLB_ONE(&t.overhead), PLB_ONE(&t.eager), PLB_ONE(&steps)));
    while (nodes * nodes < alphas) {
        nodes++;
    }
    PLB_PASS(plb_py_refuse(
        n != p || nodes * nodes != alphas || betas != alphas || shares != p, PyExc_ValueError,
        "speed, node, share: expected one entry for each processor; alpha, beta: "
        "one for each pair of nodes"));
    PLB_PASS(plb_py_refuse(n_ranks != run.n_ranks, PyExc_ValueError,
                           "place: expected a processor for each rank"));
    t.n_processors = (int32_t)p;
    t.n_nodes = (int32_t)nodes;
    void **step = NULL;
    if (PyList_GET_SIZE(steps) > 0) {
        PLB_PASS((step = plb_py_memory(c, n_ranks, sizeof *step)) == NULL);
        PLB_PASS(view_results(&run, steps, sizeof(plb_op_time_t), step));
    }
    plb_process_times_t *times = plb_py_memory(c, n_ranks, sizeof *times);
    double *to = times ? plb_py_new2(c, NPY_FLOAT64, n_ranks, 7) : NULL;
    PLB_PASS(to == NULL);
    PLB_PASS(
        PLB_PY_UNLOCKED(c, plb_whatif(&run, &t, (plb_op_time_t *const *)step, times, &c->err)));
    for (int64_t r = 0; r < n_ranks; r++) {
        const plb_process_times_t *one = &times[r];
        const double row[7] = {one->finish,       one->busy, one->waiting, one->paused,
                               (double)one->done, one->end,  one->unread};
        memcpy(to + 7 * r, row, sizeof row);
    }
    return plb_py_answer(c, plb_py_out(c, to));
}

/* Compute the lengths for each query (change, procedure, from, to, kept, alpha, beta): a row of
 * lengths[queries, p] and an entry of stuck[queries]. */
static int all_lengths(plb_py_call_t *c, const plb_streams_t *run, const plb_pairing_t *pairing,
                       PyObject *queries, plb_path_hop_t *const *hop, int64_t *lengths,
                       int32_t *stuck)
{
    static const plb_py_field_t fields[] = {
        PLB_PY_FIELD(plb_path_query_t, change), PLB_PY_FIELD(plb_path_query_t, procedure),
        PLB_PY_FIELD(plb_path_query_t, from),   PLB_PY_FIELD(plb_path_query_t, to),
        PLB_PY_FIELD(plb_path_query_t, kept),   PLB_PY_FIELD(plb_path_query_t, alpha),
        PLB_PY_FIELD(plb_path_query_t, beta),   {0}};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(queries); i++) {
        plb_path_query_t query;
        PLB_PASS(plb_py_fill(c, fields, PyList_GET_ITEM(queries, i), &query));
        PLB_PASS(
            PLB_PY_UNLOCKED(c, plb_path_lengths(run, pairing, &query, lengths + i * run->n_ranks,
                                                hop, stuck + i, &c->err)));
    }
    return 0;
}

PLB_PY_DEF(fn, path_lengths, "ops:L comm_start:+ comm_member ... queries:L hops:L=[]",
           "Return the lengths of the critical path if the program were changed.  For each\n"
           "query: the nanoseconds of the longest path to each rank's end, (queries, p) int64,\n"
           "and the number of ranks that would wait forever.  queries: a list of (change,\n"
           "procedure, from, to, kept, alpha, beta); csrc/whatif/whatif.h explains them.  hops:\n"
           "arrays of plb_path_hop_t for the operations of each rank, set by the last query.")
{
    PyObject *queries, *hops = NULL, *out = NULL;
    plb_streams_t run;
    plb_pairing_t pairing = {0};
    void **hop = NULL;
    int64_t *lengths;
    int32_t *stuck;
    PLB_PASS(read_streams(c, &run));
    PLB_PASS(PLB_READ(c, PLB_ONE(&queries), PLB_ONE(&hops)));
    if (hops != NULL && PyList_GET_SIZE(hops) > 0) {
        PLB_PASS((hop = plb_py_memory(c, run.n_ranks, sizeof *hop)) == NULL);
        PLB_PASS(view_results(&run, hops, sizeof(plb_path_hop_t), hop));
    }
    if (PLB_PY_UNLOCKED(c, plb_pairing_make(&run, &pairing, &c->err)) == 0 &&
        (lengths = plb_py_new2(c, NPY_INT64, PyList_GET_SIZE(queries), run.n_ranks)) &&
        (stuck = plb_py_new(c, NPY_INT32, PyList_GET_SIZE(queries))) &&
        all_lengths(c, &run, &pairing, queries, (plb_path_hop_t *const *)hop, lengths, stuck) ==
            0) {
        out = Py_BuildValue("NN", plb_py_out(c, lengths), plb_py_out(c, stuck));
    }
    plb_pairing_free(&pairing);
    return plb_py_answer(c, out);
}

static const plb_py_def_t *const methods[] = {&fn_simulate, &fn_path_lengths, NULL};

static int constants(PyObject *module)
{
    return plb_py_add_value(module, "ONE_SIDED",
                            plb_py_names(plb_one_sided_names, PLB_N_ONE_SIDED));
}

const plb_py_room_t plb_py_whatif = {methods, {NULL}, constants};
