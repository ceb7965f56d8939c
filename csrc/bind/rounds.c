/* Distributed strategies: the agent of one rank, for whoever carries its notes; and what a
 * placement in rounds costs on virtual ranks. */
#include "bind/views.h"

#include "place/kit/rounds.h"

/* A distributed strategy of the table, or NULL with an exception. */
static const plb_strategy_t *distributed(const char *name, PyArrayObject *params)
{
    const plb_strategy_t *s = plb_strategy_find(name);
    if (s == NULL || s->agent == NULL) {
        PyErr_Format(PyExc_ValueError, "strategy '%s' is no distributed one of the table", name);
        return NULL;
    }
    if (PyArray_SIZE(params) != s->n_params) {
        PyErr_Format(PyExc_ValueError, "%s takes %d parameters: %zd given", s->name, s->n_params,
                     PyArray_SIZE(params));
        return NULL;
    }
    return s;
}

/* ---- the agent of one rank ------------------------------------------------------------------ */

typedef struct agent_object {
    PyObject_HEAD plb_py_held_t held;
    plb_share_t share;
    plb_agent_t *core;
    bool at_work; /* in a round, without the GIL */
} agent_object_t;

/* `object` as n elements, or with *n < 0 as many as it has; None gives NULL. */
static int view(agent_object_t *self, PyObject *object, const char *name, int type, int64_t *n,
                const void **data)
{
    PyArrayObject *a = plb_py_hold(&self->held, object, type, 1);
    if (a == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    *n = *n < 0 ? PyArray_SIZE(a) : *n;
    if (PyArray_SIZE(a) != *n) {
        PyErr_Format(PyExc_ValueError, "%s has %zd entries: expected %lld", name, PyArray_SIZE(a),
                     (long long)*n);
        return -1;
    }
    *data = PyArray_DATA(a);
    return 0;
}

static int fill_share(agent_object_t *self, PyObject *args, const char **name,
                      PyArrayObject **params, uint64_t *seed)
{
    PyObject *values, *neighbour, *id, *load, *memory, *migratable, *object, *peer, *where, *bytes;
    plb_share_t *s = &self->share;
    unsigned long long given;
    long long limit;
    int64_t n_neighbours = -1, n = -1, m = -1;
    if (!PyArg_ParseTuple(args, "sOKiiOddLOOOOOOOO", name, &values, &given, &s->rank, &s->n_ranks,
                          &neighbour, &s->speed, &s->background, &limit, &id, &load, &memory,
                          &migratable, &object, &peer, &where, &bytes) ||
        (*params = plb_py_hold(&self->held, values, NPY_FLOAT64, 1)) == NULL) {
        return -1;
    }
#define VIEW(from, field, type, count)                                                            \
    (view(self, from, #field, type, &(count), (const void **)&s->field) != 0)
    if (VIEW(neighbour, neighbour, NPY_INT32, n_neighbours) || VIEW(id, id, NPY_INT64, n) ||
        VIEW(load, load, NPY_FLOAT64, n) || VIEW(memory, memory, NPY_INT64, n) ||
        VIEW(migratable, migratable, NPY_BOOL, n) || VIEW(object, edge_object, NPY_INT32, m) ||
        VIEW(peer, edge_peer_id, NPY_INT64, m) || VIEW(where, edge_peer_rank, NPY_INT32, m) ||
        VIEW(bytes, edge_bytes, NPY_FLOAT64, m)) {
        return -1;
    }
#undef VIEW
    s->n_neighbours = n_neighbours < 0 ? 0 : (int32_t)n_neighbours;
    s->n = n;
    s->n_edges = m;
    s->memory_limit = limit;
    *seed = given;
    return 0;
}

static PyObject *agent_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    const char *name;
    uint64_t seed;
    PyArrayObject *params;
    plb_err_t err = {0, ""};
    agent_object_t *self = (agent_object_t *)type->tp_alloc(type, 0);
    if (self == NULL || fill_share(self, args, &name, &params, &seed) != 0) {
        Py_XDECREF(self);
        return NULL;
    }
    const plb_strategy_t *strategy = distributed(name, params);
    if (strategy != NULL) {
        const plb_opts_t opts = {.params = PyArray_DATA(params), .seed = seed};
        self->core = plb_agent_new(strategy->agent, &self->share, &opts, &err);
        if (self->core == NULL) {
            plb_py_raise(err.code, &err);
        }
    }
    if (self->core == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void agent_dealloc(PyObject *object)
{
    agent_object_t *self = (agent_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    plb_agent_destroy(self->core);
    plb_py_release(&self->held);
    type->tp_free(object);
    Py_DECREF(type);
}

/* How many notes a list of (rank, [buffer]) holds; -1 with an exception. */
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
            PyList_GET_SIZE(parts) == 1 ? PyObject_Size(PyList_GET_ITEM(parts, 0)) : -1;
        if (size < 0 || size % (Py_ssize_t)sizeof(plb_note_t) != 0) {
            PyErr_Format(PyExc_ValueError, "the message of rank %d is not made of notes", rank);
            return -1;
        }
        n += size / (Py_ssize_t)sizeof(plb_note_t);
    }
    return n;
}

/* The notes of a list of (rank, [buffer]), which is in order of rank; NULL with an exception. */
static plb_note_t *read_notes(PyObject *received, int64_t *n)
{
    *n = count_notes(received);
    plb_note_t *notes = *n < 0 ? NULL : plb_malloc((size_t)*n, sizeof *notes);
    plb_note_t *at = notes;
    if (notes == NULL && *n >= 0) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; notes != NULL && i < PyList_GET_SIZE(received); i++) {
        PyObject *entry = PyList_GET_ITEM(received, i);
        Py_buffer part;
        if (PyObject_GetBuffer(PyList_GET_ITEM(PyTuple_GET_ITEM(entry, 1), 0), &part,
                               PyBUF_SIMPLE) != 0) {
            plb_free(notes);
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

/* What an agent has written as a list of (rank, [bytes]), in order of rank. */
static PyObject *written(const plb_agent_t *agent)
{
    const int64_t n = agent->n_notes;
    const plb_note_t **order = plb_malloc((size_t)n, sizeof *order);
    PyObject *out = order == NULL ? PyErr_NoMemory() : PyList_New(0);
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
        PyObject *entry = bytes ? Py_BuildValue("i[N]", peer, bytes) : NULL;
        if (entry == NULL || PyList_Append(out, entry) != 0) {
            Py_CLEAR(out);
        }
        Py_XDECREF(entry);
    }
    plb_free(order);
    return out;
}

PyDoc_STRVAR(
    round_doc,
    "round($self, received, tally, /)\n--\n\n"
    "One round.  received: (rank, [buffer]) in order of rank, what others sent in the last\n"
    "one; tally: two sums, two maxima and three counts over all ranks.  Returns what is\n"
    "to be sent, likewise, and the contribution to the next tally.");
static PyObject *agent_round(PyObject *object, PyObject *args)
{
    agent_object_t *self = (agent_object_t *)object;
    PyObject *received;
    plb_tally_t all;
    plb_err_t err = {0, ""};
    long long count[PLB_TALLY_COUNTS];
    int64_t n;
    if (!PyArg_ParseTuple(args, "O!(ddddLLL)", &PyList_Type, &received, &all.sum[0], &all.sum[1],
                          &all.max[0], &all.max[1], &count[0], &count[1], &count[2])) {
        return NULL;
    }
    if (self->at_work || self->core->done) {
        PyErr_SetString(PyExc_RuntimeError,
                        self->at_work ? "a round is under way" : "there are no more rounds");
        return NULL;
    }
    for (int k = 0; k < PLB_TALLY_COUNTS; k++) {
        all.count[k] = count[k];
    }
    plb_note_t *notes = read_notes(received, &n);
    if (notes == NULL) {
        return NULL;
    }
    int ret;
    self->at_work = true;
    Py_BEGIN_ALLOW_THREADS ret = plb_agent_round(self->core, notes, n, &all, &err);
    Py_END_ALLOW_THREADS self->at_work = false;
    plb_free(notes);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    const plb_tally_t *mine = &self->core->mine;
    PyObject *sends = written(self->core);
    return sends ? Py_BuildValue("N(ddddLLL)", sends, mine->sum[0], mine->sum[1], mine->max[0],
                                 mine->max[1], (long long)mine->count[0],
                                 (long long)mine->count[1], (long long)mine->count[2])
                 : NULL;
}

static PyObject *get_done(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((agent_object_t *)object)->core->done);
}

static PyObject *get_times(PyObject *object, void *unused)
{
    (void)unused;
    const plb_agent_t *core = ((agent_object_t *)object)->core;
    return Py_BuildValue("dd", core->own_before, core->own_after);
}

/* A copy: the agent may go first. */
static PyObject *get_rank(PyObject *object, void *unused)
{
    (void)unused;
    const agent_object_t *self = (agent_object_t *)object;
    npy_intp n = (npy_intp)self->share.n;
    if (!self->core->done) {
        PyErr_SetString(PyExc_RuntimeError, "the placement is not known before the last round");
        return NULL;
    }
    PyObject *out = PyArray_SimpleNew(1, &n, NPY_INT32);
    if (out != NULL && n > 0) {
        memcpy(PyArray_DATA((PyArrayObject *)out), self->core->answer, (size_t)n * 4);
    }
    return out;
}

static PyMethodDef agent_methods[] = {{"round", agent_round, METH_VARARGS, round_doc}, {0}};

static PyGetSetDef agent_getset[] = {
    {"done", get_done, NULL, "Whether the placement is known.", NULL},
    {"rank", get_rank, NULL, "New rank of each of the rank's own objects, (n,) int32.", NULL},
    {"times", get_times, NULL, "Seconds of the rank in an iteration, before and after.", NULL},
    {0},
};

PyDoc_STRVAR(agent_doc,
             "Agent(strategy, params, seed, rank, n_ranks, neighbours, speed, background,\n"
             "      memory_limit, id, load, memory, migratable, edge_object, edge_peer_id,\n"
             "      edge_peer_rank, edge_bytes, /)\n--\n\n"
             "One rank in a distributed placement; csrc/place/agent.h has the fields.");
static PyType_Slot agent_slots[] = {
    {Py_tp_doc, (void *)agent_doc}, {Py_tp_new, agent_new},       {Py_tp_dealloc, agent_dealloc},
    {Py_tp_methods, agent_methods}, {Py_tp_getset, agent_getset}, {0, NULL},
};

static PyType_Spec agent_spec = {
    .name = "pylb._core.Agent",
    .basicsize = sizeof(agent_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = agent_slots,
};

/* ---- virtual ranks -------------------------------------------------------------------------- */

typedef struct call {
    plb_snapshot_t snapshot;
    const plb_strategy_t *strategy;
    plb_opts_t opts;
    int32_t *rank;
    plb_traffic_t traffic;
} call_t;

static int run(call_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->snapshot.n_ranks;
    PLB_NEW(self->rank, self->snapshot.n_objects);
    PLB_NEW0(self->traffic.messages, p);
    PLB_NEW0(self->traffic.bytes, p);
    PLB_NEW0(self->traffic.held, p);
    ret = plb_rounds_run(self->strategy->agent, &self->snapshot, &self->opts, self->rank,
                         &self->traffic, err);
out:
    return ret;
}

PyDoc_STRVAR(traffic_doc,
             "traffic(snapshot, strategy, params, seed, /)\n--\n\n"
             "Run a distributed strategy on virtual ranks.  Returns the placement, the number of\n"
             "rounds, and of each rank the messages and bytes sent and the most entries held.");
static PyObject *traffic(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *params, *result = NULL;
    const char *name;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "OsOK", &object, &name, &params, &seed)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    plb_err_t err = {0, ""};
    call_t call = {0};
    PyArrayObject *values = plb_py_hold(&held, params, NPY_FLOAT64, 1);
    if (values == NULL || plb_py_snapshot(&held, object, &call.snapshot) != 0 ||
        (call.strategy = distributed(name, values)) == NULL) {
        goto out;
    }
    PyThreadState *state = PyEval_SaveThread();
    call.opts = (plb_opts_t){PyArray_DATA(values), seed, plb_py_tick, &state};
    const int ret = run(&call, &err);
    PyEval_RestoreThread(state);
    if (ret != PLB_OK) {
        plb_free(call.rank);
        plb_free(call.traffic.messages);
        plb_free(call.traffic.bytes);
        plb_free(call.traffic.held);
        plb_py_raise(ret, &err);
        goto out;
    }
    const npy_intp p = call.snapshot.n_ranks;
    result = Py_BuildValue(
        "NLNNN", plb_py_take(call.rank, (npy_intp)call.snapshot.n_objects, NPY_INT32),
        (long long)call.traffic.rounds, plb_py_take(call.traffic.messages, p, NPY_INT64),
        plb_py_take(call.traffic.bytes, p, NPY_INT64),
        plb_py_take(call.traffic.held, p, NPY_INT64));
out:
    plb_py_release(&held);
    return result;
}

static PyMethodDef methods[] = {{"traffic", traffic, METH_VARARGS, traffic_doc}, {0}};

int plb_py_add_rounds(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &agent_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ? -1 : 0;
}
