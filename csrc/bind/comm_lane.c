/* Python binding of csrc/comm: exchanges with a known pattern, over MPI; linked into pylb._mpi. */
#include "bind/convert.h"
#include "bind/mpi_comm.h"
#include "bind/order.h"
#include "bind/rooms.h"

#include "comm/comm.h"
#include "comm/route.h"

typedef struct exchanger {
    PLB_PY_HEAD plb_comm_t core;
} exchanger_t;

/* An exchange in one direction of a plan (pylb.comm.plan), for rows of one dtype and shape. */
typedef struct lane {
    PLB_PY_HEAD plb_transfer_t core;
    PyObject *exchanger;
    plb_py_held_t held; /* the arrays that say what is sent and received */
    plb_side_t out, in;
    plb_py_order_t go, come; /* order of the rows that are sent (go) and received (come) */
    int64_t rows, new_rows, row_bytes;
    PyArray_Descr *descr;
    int tag, ndim, busy;
    npy_intp dim[NPY_MAXDIMS];
    char *packed, *came; /* copies of the rows that are sent and received, in the order in which
                            they travel; NULL: no copy is needed */
    PyObject *send, *receive;
} lane_t;

/* Check rank[n] and start[n+1], and set *out to them. */
static int check_side(const int32_t *rank, const int64_t *start, int64_t n, int n_ranks,
                      plb_side_t *out)
{
    *out = (plb_side_t){(int32_t)n, rank, start, NULL};
    bool good = n <= n_ranks && plb_py_rises(start, n, start[n]);
    for (int64_t i = 0; good && i < n; i++) {
        good = rank[i] >= 0 && rank[i] < n_ranks && (i == 0 || rank[i - 1] < rank[i]);
    }
    PLB_PASS(plb_py_refuse(
        !good, PyExc_ValueError,
        "expected ascending ranks of the communicator, and starts that rise from 0"));
    return 0;
}

/* Read (rank, start, order, offset) of one side; return the number of rows of its array, or -1. */
static int64_t read_side(plb_py_call_t *c, PyObject *tuple, int64_t items, int n_ranks,
                         plb_side_t *side, plb_py_order_t *order)
{
    const int32_t *rank;
    const int64_t *start;
    int64_t n = -1, travel;
    order->n = -1;
    order->items = items;
    PLB_PASS(plb_py_items(c, tuple, "rank start:+ order:? offset:+?",
                          PLB_TABLE(PLB_MANY(&rank, &n), PLB_MANY(&start, &n),
                                    PLB_MANY(&order->index, &order->n),
                                    PLB_MANY(&order->offset, &order->items))));
    PLB_PASS(check_side(rank, start, n, n_ranks, side));
    const int64_t rows = plb_py_order_rows(order, &travel);
    PLB_PASS(
        plb_py_refuse(rows < 0 || travel != side->start[side->n], PyExc_ValueError,
                      "order, offset: expected valid indices, offsets that rise from 0, and as "
                      "many rows as the last entry of start"));
    return rows;
}

static int lane_sides(lane_t *self, plb_py_call_t *c, PyObject *sides, int n_ranks)
{
    PyObject *out, *in;
    int64_t items, new_items;
    PLB_PASS(plb_py_items(
        c, sides, "out:T items in:T new_items",
        PLB_TABLE(PLB_ONE(&out), PLB_ONE(&items), PLB_ONE(&in), PLB_ONE(&new_items))));
    self->rows = read_side(c, out, items, n_ranks, &self->out, &self->go);
    if (self->rows < 0) {
        return -1;
    }
    self->new_rows = read_side(c, in, new_items, n_ranks, &self->in, &self->come);
    return self->new_rows < 0 ? -1 : 0;
}

/* Set dtype and shape of a row to those of `like`. */
static int lane_kind(lane_t *self, PyArrayObject *like)
{
    PLB_PASS(plb_py_refuse(
        PyArray_NDIM(like) < 1 || PyDataType_REFCHK(PyArray_DESCR(like)), PyExc_ValueError,
        "like: expected an array of one or more dimensions, without Python objects"));
    self->descr = PyArray_DESCR(like);
    Py_INCREF(self->descr);
    self->ndim = PyArray_NDIM(like);
    self->row_bytes = PyDataType_ELSIZE(self->descr);
    for (int k = 1; k < self->ndim; k++) {
        self->dim[k] = PyArray_DIM(like, k);
        self->row_bytes *= self->dim[k];
    }
    return 0;
}

static int lane_memory(lane_t *self, plb_py_call_t *c, plb_comm_t *comm)
{
    plb_err_t *err = &c->err;
    PLB_PASS(plb_transfer_init(&self->core, comm, self->out.n + self->in.n, err));
    if (self->go.index != NULL) {
        PLB_PASS_NEW(self->packed, self->out.start[self->out.n] * self->row_bytes);
    }
    if (self->come.index != NULL) {
        PLB_PASS_NEW(self->came, self->in.start[self->in.n] * self->row_bytes);
    }
    return PLB_OK;
}

/* Whether `object` is a contiguous array of `rows` rows of this lane's dtype and shape. */
static int fits(const lane_t *self, PyObject *object, int64_t rows)
{
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *a = (PyArrayObject *)object;
    int ok =
        PyArray_NDIM(a) == self->ndim && PyArray_DIM(a, 0) == rows && PyArray_IS_C_CONTIGUOUS(a) &&
        (PyArray_DESCR(a) == self->descr || PyArray_EquivTypes(PyArray_DESCR(a), self->descr));
    for (int k = 1; ok && k < self->ndim; k++) {
        ok = PyArray_DIM(a, k) == self->dim[k];
    }
    return ok;
}

/* Whether the memory of two contiguous arrays overlaps. */
static int overlap(PyArrayObject *a, PyArrayObject *b)
{
    const char *x = PyArray_BYTES(a), *y = PyArray_BYTES(b);
    return x < y + PyArray_NBYTES(b) && y < x + PyArray_NBYTES(a);
}

/* Return `out`; for None, a new array, in which rows that receive nothing are zero. */
static PyObject *answer(lane_t *self, PyObject *out)
{
    if (out != Py_None) {
        return Py_NewRef(out);
    }
    npy_intp dim[NPY_MAXDIMS];
    memcpy(dim, self->dim, sizeof dim);
    dim[0] = self->new_rows;
    Py_INCREF(self->descr);
    const int all = self->come.index == NULL || self->in.start[self->in.n] >= self->new_rows;
    return all ? PyArray_Empty(self->ndim, dim, self->descr, 0)
               : PyArray_Zeros(self->ndim, dim, self->descr, 0);
}

/* End an exchange whose arrays MPI no longer uses.  Returns the received rows. */
static PyObject *lane_end(lane_t *self)
{
    PyObject *out = self->receive;
    self->receive = NULL;
    Py_CLEAR(self->send);
    self->busy = 0;
    return out;
}

static int pack_and_begin(lane_t *self, const char *from, plb_err_t *err)
{
    if (self->go.index != NULL) {
        plb_py_order_gather(&self->go, from, self->row_bytes, self->packed);
    }
    return plb_transfer_begin(&self->core, &self->out, &self->in, self->row_bytes, self->tag, err);
}

/* Return 0: started; 1: begin() must return False; -1: there is an exception. */
static int lane_start(lane_t *self, plb_py_call_t *c)
{
    PyObject *send, *out;
    PLB_PASS(PLB_READ(c, PLB_ONE(&send), PLB_ONE(&out)));
    if (self->busy || !fits(self, send, self->rows) ||
        (out != Py_None &&
         !(fits(self, out, self->new_rows) && PyArray_ISWRITEABLE((PyArrayObject *)out) &&
           !overlap((PyArrayObject *)send, (PyArrayObject *)out)))) {
        return 1;
    }
    if ((self->receive = answer(self, out)) == NULL) {
        return -1;
    }
    self->send = Py_NewRef(send);
    self->busy = 1;
    char *from = PyArray_BYTES((PyArrayObject *)send);
    self->out.data = self->go.index ? self->packed : from;
    self->in.data = self->come.index ? self->came : PyArray_BYTES((PyArrayObject *)self->receive);
    const int ret = PLB_PY_UNLOCKED(c, pack_and_begin(self, from, &c->err));
    if (ret != PLB_OK && self->core.n == 0) { /* no message is under way */
        Py_DECREF(lane_end(self));
    }
    return ret;
}

static int wait_and_unpack(lane_t *self, PyThreadState **state, plb_err_t *err)
{
    PLB_PASS(plb_transfer_wait(&self->core, plb_py_tick, state, err));
    if (self->come.index != NULL) {
        plb_py_order_scatter(&self->come, self->came, self->row_bytes,
                             PyArray_BYTES((PyArrayObject *)self->receive));
    }
    return PLB_OK;
}

static PyObject *lane_finish(lane_t *self, plb_py_call_t *c)
{
    const int ret = PLB_PY_UNLOCKED(c, wait_and_unpack(self, &c->state, &c->err));
    /* a signal has ended only the wait: MPI still uses the arrays */
    if (ret == PLB_ERR_INTERRUPTED) {
        return plb_py_raise(ret, &c->err);
    }
    PyObject *out = lane_end(self);
    if (ret != PLB_OK) {
        Py_DECREF(out);
        return plb_py_raise(ret, &c->err);
    }
    return out;
}

PLB_PY_DEF(lane, begin, "rows out",
           "Begin to send rows.  out: the array for the received rows; None: a new one.  Returns\n"
           "False if the arrays do not fit or an exchange of this lane is under way; else True.")
{
    const int started = lane_start(self, c);
    return plb_py_answer(c, started < 0 ? NULL : PyBool_FromLong(started == 0));
}

PLB_PY_DEF(lane, wait, "", "Wait for the exchange and return the received rows.")
{
    PLB_PASS(plb_py_refuse(!self->busy, PyExc_RuntimeError, "no exchange is under way"));
    return plb_py_answer(c, lane_finish(self, c));
}

PLB_PY_DEF(lane, move, "rows out",
           "Call begin() and wait(); return None if begin() returned False.")
{
    const int started = lane_start(self, c);
    return plb_py_answer(c, started < 0   ? NULL
                            : started > 0 ? Py_NewRef(Py_None)
                                          : lane_finish(self, c));
}

static const plb_py_def_t *const lane_methods[] = {&lane_begin, &lane_wait, &lane_move, NULL};

/* Return the partners for which plb_transfer_t has unlike[i]. */
static PyObject *unlike(const plb_transfer_t *core)
{
    PyObject *out = PyList_New(0);
    for (int i = 0; out != NULL && i < core->n_receives; i++) {
        PyObject *rank = core->unlike[i] ? PyLong_FromLong(core->peer[i]) : NULL;
        if (core->unlike[i] && (rank == NULL || PyList_Append(out, rank) < 0)) {
            Py_CLEAR(out);
        }
        Py_XDECREF(rank);
    }
    return out;
}

#define LANE(X)                                                                                   \
    X(lane, unlike, unlike(&self->core),                                                          \
      "Ranks that exchanged objects where this rank exchanged rows, or rows where it exchanged\n" \
      "objects, in the most recent exchange.")
PLB_PY_PROPERTIES(lane, LANE)

/* Memory that an unfinished MPI exchange still uses is leaked: freeing it would corrupt memory. */
static void lane_fini(lane_t *self)
{
    if (!self->busy) {
        plb_transfer_free(&self->core);
        plb_free(self->packed);
        plb_free(self->came);
        Py_XDECREF(self->exchanger);
    }
    plb_py_release(&self->held);
    Py_XDECREF(self->descr);
}

PLB_PY_DEF(exchanger, fail, "out_rank out_start:+ in_rank in_start:+",
           "Tell the partners that this rank has failed; receive and drop their rows.  Returns\n"
           "whether a partner exchanges objects.")
{
    bool met = false;
    const int32_t *rank[2];
    const int64_t *start[2];
    int64_t n[2] = {-1, -1};
    plb_side_t out, in;
    PLB_PASS(PLB_READ(c, PLB_MANY(&rank[0], &n[0]), PLB_MANY(&start[0], &n[0]),
                      PLB_MANY(&rank[1], &n[1]), PLB_MANY(&start[1], &n[1])));
    PLB_PASS(check_side(rank[0], start[0], n[0], self->core.size, &out));
    PLB_PASS(check_side(rank[1], start[1], n[1], self->core.size, &in));
    PLB_PASS(PLB_PY_UNLOCKED(
        c, plb_transfer_fail(&self->core, &out, &in, plb_py_tick, &c->state, &met, &c->err)));
    return plb_py_answer(c, PyBool_FromLong(met));
}

static int exchanger_init(exchanger_t *self, plb_py_call_t *c)
{
    PyObject *user;
    MPI_Comm handle;
    PLB_PASS(PLB_READ(c, PLB_ONE(&user)));
    PLB_PASS(plb_py_mpi_comm(user, &handle));
    return plb_comm_init(&self->core, handle, &c->err);
}

/* Does not free the communicator: that is collective, and Python may call this at any time. */
static void exchanger_fini(exchanger_t *self)
{
    (void)self;
}

PLB_PY_DEF(exchanger, free, "",
           "Free the duplicate communicator.  Collective.  No exchange may be under way.")
{
    plb_comm_free(&self->core);
    return PLB_OK;
}

static const plb_py_def_t *const exchanger_methods[] = {&exchanger_fail, &exchanger_free, NULL};

PLB_PY_TYPE(exchanger, "pylb._mpi.Exchanger", "comm",
            "Runs exchanges on a duplicate of an mpi4py communicator, made collectively.", )

static int lane_init(lane_t *self, plb_py_call_t *c)
{
    PyObject *exchanger, *sides, *like;
    int32_t tag;
    PLB_PASS(PLB_READ(c, PLB_ONE(&exchanger), PLB_ONE(&sides), PLB_ONE(&like), PLB_ONE(&tag)));
    PLB_PASS(
        plb_py_refuse(Py_TYPE(exchanger)->tp_dealloc != exchanger_dealloc || !PyArray_Check(like),
                      PyExc_TypeError, "exchanger, like: expected an Exchanger and an array"));
    plb_comm_t *comm = &((exchanger_t *)exchanger)->core;
    self->exchanger = Py_NewRef(exchanger);
    self->tag = tag;
    const int failed = lane_sides(self, c, sides, comm->size);
    self->held = c->held; /* the lane needs the arrays as long as it exists */
    c->held.n = 0;
    PLB_PASS(failed);
    PLB_PASS(lane_kind(self, (PyArrayObject *)like));
    return lane_memory(self, c, comm);
}

PLB_PY_TYPE(
    lane, "pylb._mpi.Lane", "exchanger sides:T like tag",
    "One direction of a plan, for rows of the dtype and shape of `like`.  sides: a tuple (out,\n"
    "items, in, new_items).  out is (rank, start, order, offset) for the array that is sent, and\n"
    "items its number of items; in and new_items are the same for the array received.",
    {Py_tp_getset, lane_getset}, )

static int constants(PyObject *module)
{
    return plb_py_add_value(module, "TAGS", Py_BuildValue("ii", PLB_TAG_ITEMS, PLB_TAG_MOST));
}

const plb_py_room_t plb_py_comm_lane = {NULL, {&lane_spec, &exchanger_spec}, constants};
