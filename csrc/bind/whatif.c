/* Python binding of csrc/whatif: simulates a recorded program on another machine. */
#include "bind/convert.h"
#include "bind/rooms.h"

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
    PLB_PY_PASS(plb_py_parse(c, &start, &member, &t.place, &n_ranks, &t.speed, &p, &t.node, &n,
                             &t.alpha, &alphas, &t.beta, &betas, &t.share, &shares, &t.period,
                             &t.overhead, &t.eager, &t.as_recorded));
    PLB_PY_PASS(plb_py_comms(&c->held, start, member, &comms));
    for (nodes = 0; nodes * nodes < alphas; nodes++) {
    }
    PLB_PY_REFUSE_IF(n != p || nodes * nodes != alphas || betas != alphas || shares != p,
                     PyExc_ValueError,
                     "speed, node, share: expected one entry for each processor; alpha, beta: "
                     "one for each pair of nodes");
    t.n_processors = (int32_t)p;
    t.n_nodes = (int32_t)nodes;
    self->n_ranks = (int32_t)n_ranks;
    PLB_PY_PASS((self->kept = PyDict_New()) == NULL);
    self->it = plb_whatif_new(self->n_ranks, &comms, &t, &c->err);
    return self->it != NULL ? 0 : plb_py_check(c, c->err.code);
}

static void simulation_fini(simulation_t *self)
{
    plb_whatif_destroy(self->it);
    Py_XDECREF(self->kept);
}

PLB_PY_METHOD(
    simulation, feed, "rank:i ops:O closed:p steps:O",
    "Pass all operations of a rank that are known so far.  closed: whether these are all.\n"
    "steps: an array that gets the times of these operations, one record each; or None.")
{
    int32_t rank;
    bool closed;
    PyObject *ops, *steps;
    PLB_PY_TRY(plb_py_parse(c, &rank, &ops, &closed, &steps));
    PLB_PY_RAISE_IF(rank < 0 || rank >= self->n_ranks, PyExc_IndexError,
                    "rank is %d: expected 0 ... %d", (int)rank, (int)self->n_ranks - 1);
    PyArrayObject *op = plb_py_records(ops, sizeof(plb_op_t), false), *step = NULL;
    PLB_PY_GET(op);
    if (steps != Py_None) {
        PLB_PY_GET(step = plb_py_records(steps, sizeof(plb_op_time_t), true));
    }
    PLB_PY_RAISE_IF(step != NULL && PyArray_SIZE(step) < PyArray_SIZE(op), PyExc_ValueError,
                    "steps has fewer records than there are operations");
    PLB_PY_TRY(
        plb_py_check(c, plb_whatif_feed(self->it, rank, PyArray_DATA(op), PyArray_SIZE(op), closed,
                                        step ? PyArray_DATA(step) : NULL, &c->err)));
    PyObject *key = PyLong_FromLong(rank), *pair = PyTuple_Pack(2, ops, steps);
    const int failed = key == NULL || pair == NULL || PyDict_SetItem(self->kept, key, pair) != 0;
    Py_XDECREF(key);
    Py_XDECREF(pair);
    return failed ? NULL : Py_NewRef(Py_None);
}

PLB_PY_METHOD(simulation, comms, "start:O member:O",
              "Set all communicators that are known so far.")
{
    PyObject *start, *member;
    plb_comms_t comms;
    PLB_PY_TRY(plb_py_parse(c, &start, &member));
    PLB_PY_TRY(plb_py_comms(&c->held, start, member, &comms));
    return PLB_PY_NONE(c, plb_whatif_comms(self->it, &comms, &c->err));
}

PLB_PY_METHOD0(simulation, run,
               "Simulate until a rank's operation is missing.  Returns this rank; -1: finished.")
{
    int32_t missing = -1;
    PLB_PY_RUN(c, plb_whatif_run(self->it, &missing, &c->err));
    return PyLong_FromLong(missing);
}

PLB_PY_METHOD0(
    simulation, times,
    "Return (p, 7) float64.  For each rank: the seconds at which it ended, or which it has\n"
    "reached; seconds of work, of waiting in MPI, and of pauses; number of operations done;\n"
    "how it ended (a plb_end_t); number of messages to it that it has not received.")
{
    plb_process_times_t *times = plb_py_memory(c, self->n_ranks, sizeof *times);
    double *to = times ? plb_py_new2(c, NPY_FLOAT64, self->n_ranks, 7) : NULL;
    PLB_PY_GET(to);
    plb_whatif_times(self->it, times);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        const plb_process_times_t *t = &times[r];
        const double row[7] = {t->finish,       t->busy, t->waiting, t->paused,
                               (double)t->done, t->end,  t->unread};
        memcpy(to + 7 * r, row, sizeof row);
    }
    return plb_py_out(c, to);
}

PLB_PY_METHOD0(simulation, memory,
               "Return the bytes of memory of the simulation, without the arrays given to feed().")
{
    return PyLong_FromLongLong(plb_whatif_memory(self->it));
}

static PyMethodDef simulation_methods[] =
    PLB_PY_METHODS(simulation, feed, comms, run, times, memory);

PLB_PY_TYPE(simulation, "pylb._core.Simulation",
            "comm_start:O comm_member:O place:i4 speed:f8 node:i4 alpha:f8@ beta:f8@ share:f8 "
            "period:d overhead:d eager:l as_recorded:p",
            "Simulates recorded operations on a machine; see csrc/whatif/simulator/simulator.h.", )

PLB_PY_FN0(
    op_layout,
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
    return Py_BuildValue("NNNN", layout, plb_py_names(kinds, PLB_N_OPS),
                         plb_py_names(collectives, PLB_N_COLLECTIVES),
                         plb_py_names(plb_one_sided_names, PLB_N_ONE_SIDED));
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, op_layout);

static int constants(PyObject *module)
{
    PyObject *flags = Py_BuildValue("{sisisisisisi}", "SAME_CALL", PLB_OP_SAME_CALL, "ANY_SOURCE",
                                    PLB_OP_ANY_SOURCE, "ANY_TAG", PLB_OP_ANY_TAG, "SYNCHRONOUS",
                                    PLB_OP_SYNCHRONOUS, "BUFFERED", PLB_OP_BUFFERED, "CANCELLED",
                                    PLB_OP_CANCELLED);
    return plb_py_add_value(module, "OP_FLAGS", flags);
}

const plb_py_room_t plb_py_whatif = {methods, {&simulation_spec}, constants};
