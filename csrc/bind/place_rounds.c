/* Python binding of the distributed strategies in csrc/place: the agent of one rank, whose notes
 * (short messages to other agents) the caller sends and receives; and a run on virtual ranks. */
#include "bind/convert.h"
#include "bind/rooms.h"

#include "place/strategy.h"

static const plb_strategy_t *distributed(const char *name, int64_t n_params)
{
    const plb_strategy_t *s = plb_strategy_find(name);
    if (plb_py_refuse(s == NULL || s->agent == NULL, PyExc_ValueError,
                      "'%s' is not a distributed strategy of the table", name)) {
        return NULL;
    }
    if (plb_py_refuse(n_params != s->n_params, PyExc_ValueError,
                      "%s takes %d parameters: %lld given", s->name, s->n_params,
                      (long long)n_params)) {
        return NULL;
    }
    return s;
}

typedef struct agent {
    PLB_PY_HEAD plb_py_held_t held; /* the arrays that the agent reads */
    plb_share_t share;
    plb_agent_t *core;
} agent_t;

static int agent_init(agent_t *self, plb_py_call_t *c)
{
    plb_share_t *s = &self->share;
    plb_opts_t opts = {0};
    const char *name;
    int64_t n_params = -1, n_neighbours = -1;
    s->n = s->n_edges = -1;
    PLB_PASS(PLB_READ(
        c, PLB_ONE(&name), PLB_MANY(&opts.params, &n_params), PLB_ONE(&opts.seed),
        PLB_ONE(&s->rank), PLB_ONE(&s->n_ranks), PLB_MANY(&s->neighbour, &n_neighbours),
        PLB_ONE(&s->speed), PLB_ONE(&s->background), PLB_ONE(&s->memory_limit),
        PLB_ONE(&s->lenient), PLB_MANY(&s->id, &s->n), PLB_MANY(&s->load, &s->n),
        PLB_MANY(&s->memory, &s->n), PLB_MANY(&s->migratable, &s->n),
        PLB_MANY(&s->edge_object, &s->n_edges), PLB_MANY(&s->edge_peer_id, &s->n_edges),
        PLB_MANY(&s->edge_peer_rank, &s->n_edges), PLB_MANY(&s->edge_bytes, &s->n_edges)));
    s->n_neighbours = n_neighbours < 0 ? 0 : (int32_t)n_neighbours;
    const plb_strategy_t *strategy = distributed(name, n_params);
    PLB_PASS(strategy == NULL);
    self->core = plb_agent_new(strategy->agent, s, &opts, &c->err);
    self->held = c->held; /* the agent needs the arrays as long as it exists */
    c->held.n = 0;
    return self->core != NULL ? PLB_OK : c->err.code;
}

static void agent_fini(agent_t *self)
{
    plb_agent_destroy(self->core);
    plb_py_release(&self->held);
}

static Py_ssize_t bytes_of(PyObject *object)
{
    Py_buffer view;
    PLB_PASS(PyObject_GetBuffer(object, &view, PyBUF_SIMPLE));
    const Py_ssize_t n = view.len;
    PyBuffer_Release(&view);
    return n;
}

/* Count the notes in a list of (rank, [buffer]). */
static int64_t count_notes(PyObject *received)
{
    int64_t n = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(received); i++) {
        PyObject *parts;
        int rank;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(received, i), "iO!", &rank, &PyList_Type, &parts)) {
            return -1;
        }
        const Py_ssize_t size =
            PyList_GET_SIZE(parts) == 1 ? bytes_of(PyList_GET_ITEM(parts, 0)) : -1;
        PLB_PASS(plb_py_refuse(size < 0 || size % (Py_ssize_t)sizeof(plb_note_t) != 0,
                               PyExc_ValueError,
                               "the message of rank %d is not a whole number of notes", rank));
        n += size / (Py_ssize_t)sizeof(plb_note_t);
    }
    return n;
}

/* Read the notes of a list of (rank, [buffer]), which is in order of rank. */
static plb_note_t *read_notes(plb_py_call_t *c, PyObject *received, int64_t *n)
{
    *n = count_notes(received);
    plb_note_t *notes = *n < 0 ? NULL : plb_py_memory(c, *n, sizeof *notes), *at = notes;
    for (Py_ssize_t i = 0; notes != NULL && i < PyList_GET_SIZE(received); i++) {
        PyObject *entry = PyList_GET_ITEM(received, i);
        Py_buffer part;
        if (PyObject_GetBuffer(PyList_GET_ITEM(PyTuple_GET_ITEM(entry, 1), 0), &part,
                               PyBUF_SIMPLE)) {
            return NULL;
        }
        memcpy(at, part.buf, (size_t)part.len);
        const plb_note_t *end = at + part.len / (Py_ssize_t)sizeof *at;
        for (const int rank = (int)PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)); at < end; at++) {
            at->peer = rank;
        }
        PyBuffer_Release(&part);
    }
    return notes;
}

static int by_peer(const void *a, const void *b)
{
    const plb_note_t *x = *(const plb_note_t *const *)a, *y = *(const plb_note_t *const *)b;
    return x->peer != y->peer ? (x->peer > y->peer) - (x->peer < y->peer) : (x > y) - (x < y);
}

/* Return the notes that an agent has written, as a list of (rank, [bytes]) in order of rank. */
static PyObject *written(plb_py_call_t *c, const plb_agent_t *agent)
{
    const int64_t n = agent->n_notes;
    const plb_note_t **order = plb_py_memory(c, n, sizeof *order);
    PyObject *out = order == NULL ? NULL : PyList_New(0);
    for (int64_t k = 0; order != NULL && k < n; k++) {
        order[k] = &agent->note[k];
    }
    if (order != NULL) {
        qsort(order, (size_t)n, sizeof *order, by_peer);
    }
    for (int64_t begin = 0, end; out != NULL && begin < n; begin = end) {
        const int32_t peer = order[begin]->peer;
        for (end = begin; end < n && order[end]->peer == peer; end++) {
        }
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(end - begin) *
                                                              (Py_ssize_t)sizeof *agent->note);
        for (int64_t k = begin; bytes != NULL && k < end; k++) {
            memcpy((plb_note_t *)PyBytes_AS_STRING(bytes) + (k - begin), order[k],
                   sizeof *agent->note);
        }
        plb_py_append(&out, bytes ? Py_BuildValue("i[N]", peer, bytes) : NULL);
    }
    return out;
}

PLB_PY_DEF(
    agent, round, "received:L tally:T",
    "Do one round.  received: what other ranks sent in the previous round, a list of\n"
    "(rank, [buffer]) in order of rank.  tally: two sums, two maxima and two counts over all\n"
    "ranks.  Returns what to send, like `received`, and this rank's part of the next tally.")
{
    static const plb_py_field_t tally[] = {PLB_PY_FIELD(plb_tally_t, sum[0]),
                                           PLB_PY_FIELD(plb_tally_t, sum[1]),
                                           PLB_PY_FIELD(plb_tally_t, max[0]),
                                           PLB_PY_FIELD(plb_tally_t, max[1]),
                                           PLB_PY_FIELD(plb_tally_t, count[0]),
                                           PLB_PY_FIELD(plb_tally_t, count[1]),
                                           {0}};
    PyObject *received, *total;
    plb_tally_t all;
    int64_t n;
    PLB_PASS(PLB_READ(c, PLB_ONE(&received), PLB_ONE(&total)));
    PLB_PASS(plb_py_fill(c, tally, total, &all));
    PLB_PASS(plb_py_refuse(self->core->done, PyExc_RuntimeError, "there are no more rounds"));
    plb_note_t *notes = read_notes(c, received, &n);
    PLB_PASS(notes == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_agent_round(self->core, notes, n, &all, &c->err)));
    PyObject *sends = written(c, self->core);
    return plb_py_answer(
        c, sends ? Py_BuildValue("NN", sends, plb_py_tuple(tally, &self->core->mine)) : NULL);
}

static const plb_py_def_t *const agent_methods[] = {&agent_round, NULL};

static PyObject *rank_of(const agent_t *self)
{
    return self->core->done ? plb_py_copy(self->core->answer, self->share.n, NPY_INT32)
                            : PyErr_Format(PyExc_RuntimeError,
                                           "the placement is not known before the last round");
}

#define AGENT(X)                                                                                  \
    X(agent, done, PyBool_FromLong(self->core->done), "Whether the placement is known.")          \
    X(agent, rank, rank_of(self), "New rank of each of this rank's own objects, (n,) int32.")     \
    X(agent, memory, PyLong_FromLongLong(self->core->memory),                                     \
      "Bytes of the objects that are on this rank under the new placement.")                      \
    X(agent, times, Py_BuildValue("dd", self->core->own_before, self->core->own_after),           \
      "Seconds of this rank in an iteration, before and after the LB step.")
PLB_PY_PROPERTIES(agent, AGENT)

PLB_PY_TYPE(agent, "pylb._core.Agent",
            "strategy params seed rank n_ranks neighbours:? speed background memory_limit lenient "
            "id load memory:? migratable:? edge_object edge_peer_id edge_peer_rank edge_bytes",
            "One rank in a distributed placement; csrc/place/strategy.h explains the arguments.",
            {Py_tp_getset, agent_getset}, )

PLB_PY_DEF(fn, traffic, "snapshot strategy params seed",
           "Run a distributed strategy on virtual ranks.  Returns the placement, the number of\n"
           "rounds, and for each rank: messages sent, bytes sent, and the largest number of\n"
           "entries and notes in its memory at a time (csrc/place/strategy.h).")
{
    PyObject *object;
    const char *name;
    int64_t n_params = -1;
    plb_opts_t opts = {0};
    plb_snapshot_t in;
    plb_traffic_t t = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&name), PLB_MANY(&opts.params, &n_params),
                      PLB_ONE(&opts.seed)));
    PLB_PASS(plb_py_snapshot(c, object, &in));
    const plb_strategy_t *strategy = distributed(name, n_params);
    PLB_PASS(strategy == NULL);
    int32_t *rank = plb_py_new(c, NPY_INT32, in.n_objects);
    t.messages = plb_py_zeros(c, NPY_INT64, in.n_ranks);
    t.bytes = plb_py_zeros(c, NPY_INT64, in.n_ranks);
    t.held = plb_py_zeros(c, NPY_INT64, in.n_ranks);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_rounds_run(strategy->agent, &in, &opts, rank, &t, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NLNNN", plb_py_sealed(c, rank), (long long)t.rounds,
                                          plb_py_sealed(c, t.messages), plb_py_sealed(c, t.bytes),
                                          plb_py_sealed(c, t.held)));
}

static const plb_py_def_t *const methods[] = {&fn_traffic, NULL};

const plb_py_room_t plb_py_place_rounds = {methods, {&agent_spec}, NULL};
