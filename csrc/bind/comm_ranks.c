/* pylb._mpi: csrc/comm over MPI, with communicators of any module: collective steps, exchanges
 * with a known pattern, work lent within a step. */
#define PLB_PY_MAIN
#include "bind/views.h"

#include "base/base.h"
#include "bind/mpi_comm.h"
#include "comm/comm.h"

typedef struct comm {
    PLB_PY_HEAD plb_comm_t core;
    plb_step_t step;
    plb_reducer_t reducer;
    /* head[p], size[p], count[2p], owned: the bytes of each rank, and scratch memory, for
     * plb_comm_heads and plb_comm_allgather; allocated in advance, so that no rank fails between
     * the collective calls of a gather */
    plb_head_t *head;
    int64_t *size;
    int *count;
    Py_buffer *held; /* buffers of the parts that are being sent */
    Py_ssize_t n_held;
    PyObject *received;  /* list of (source, [parts]) that the step under way has received */
    PyObject *into;      /* argument of begin(), owned: a dict from a source to a list of arrays
                            for its parts; NULL: none */
    plb_py_call_t *call; /* the call that waits */
} comm_t;

/* Return the array of `into` for this part, a new reference; NULL: there is none that fits. */
static PyObject *given(const comm_t *self, const plb_parcel_t *p, int part)
{
    PyObject *source = self->into ? PyLong_FromLong(p->peer) : NULL;
    PyObject *arrays = source ? PyDict_GetItemWithError(self->into, source) : NULL;
    Py_XDECREF(source);
    if (arrays == NULL || !PyList_Check(arrays) || part >= PyList_GET_SIZE(arrays)) {
        return NULL;
    }
    PyObject *a = PyList_GET_ITEM(arrays, part);
    PyArrayObject *array = (PyArrayObject *)a;
    return PyArray_CheckExact(a) && PyArray_TYPE(array) == NPY_UINT8 && PyArray_ISCARRAY(array) &&
                   PyArray_NBYTES(array) == p->size[part]
               ? Py_NewRef(a)
               : NULL;
}

/* Append (source, [array, ...]) to `received`.  NumPy makes new arrays, on large pages. */
static int take_locked(comm_t *self, plb_parcel_t *p)
{
    PyObject *parts = PyList_New(0);
    for (int i = 0; parts != NULL && i < p->n; i++) {
        npy_intp n = (npy_intp)p->size[i];
        PyObject *a = given(self, p, i);
        a = a != NULL || PyErr_Occurred() ? a : PyArray_SimpleNew(1, &n, NPY_UINT8);
        p->part[i] = a ? PyArray_DATA((PyArrayObject *)a) : NULL;
        plb_py_append(&parts, a);
    }
    PyObject *entry = parts ? Py_BuildValue("iN", p->peer, parts) : NULL;
    const int failed = entry == NULL || PyList_Append(self->received, entry) != 0;
    Py_XDECREF(entry);
    return failed;
}

static int take(void *arg, plb_parcel_t *parcel, plb_err_t *err)
{
    comm_t *self = arg;
    PyEval_RestoreThread(self->call->state);
    const int failed = take_locked(self, parcel);
    self->call->state = PyEval_SaveThread();
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "no memory for a parcel") : PLB_OK;
}

static void release_held(comm_t *self)
{
    for (Py_ssize_t i = 0; i < self->n_held; i++) {
        PyBuffer_Release(&self->held[i]);
    }
    plb_free(self->held);
    self->held = NULL;
    self->n_held = 0;
}

/* Hold all buffers of `sends`, a list of (rank, [buffers]); returns their number or -1. */
static Py_ssize_t hold_parts(comm_t *self, PyObject *sends)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sends); i++) {
        PyObject *parts;
        int rank;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(sends, i), "iO!", &rank, &PyList_Type, &parts)) {
            return -1;
        }
        total += PyList_GET_SIZE(parts);
    }
    self->held = plb_malloc((size_t)total, sizeof *self->held);
    if (self->held == NULL) {
        plb_py_no_memory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sends); i++) {
        PyObject *parts = PyTuple_GET_ITEM(PyList_GET_ITEM(sends, i), 1);
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(parts); j++) {
            PLB_PASS(PyObject_GetBuffer(PyList_GET_ITEM(parts, j), &self->held[self->n_held],
                                        PyBUF_SIMPLE));
            self->n_held++;
        }
    }
    return total;
}

static void fill_parcels(comm_t *self, PyObject *sends, plb_parcel_t *parcel, void **part,
                         int64_t *size)
{
    for (Py_ssize_t i = 0; i < self->n_held; i++) {
        part[i] = self->held[i].buf;
        size[i] = self->held[i].len;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sends); i++) {
        PyObject *entry = PyList_GET_ITEM(sends, i);
        const int n = (int)PyList_GET_SIZE(PyTuple_GET_ITEM(entry, 1));
        parcel[i] = (plb_parcel_t){(int)PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)), n, part, size};
        part += n;
        size += n;
    }
}

static int begin(comm_t *self, plb_py_call_t *c)
{
    PyObject *sample, *sends, *into = Py_None;
    plb_stats_t mine;
    PLB_PASS(PLB_READ(c, PLB_ONE(&sample), PLB_ONE(&sends), PLB_ONE(&into)));
    PLB_PASS(plb_py_sample(c, sample, self->core.rank, &mine));
    PLB_PASS(plb_step_check_idle(&self->step, &c->err));
    Py_XSETREF(self->received, PyList_New(0));
    Py_XSETREF(self->into, PyDict_Check(into) ? Py_NewRef(into) : NULL);
    const Py_ssize_t n = PyList_GET_SIZE(sends), total = hold_parts(self, sends);
    plb_parcel_t *parcel = total < 0 ? NULL : plb_py_memory(c, n, sizeof *parcel);
    void **part = parcel ? plb_py_memory(c, total, sizeof *part) : NULL;
    int64_t *size = part ? plb_py_memory(c, total, sizeof *size) : NULL;
    int failed = self->received == NULL || size == NULL ? -1 : 0;
    if (!failed) {
        fill_parcels(self, sends, parcel, part, size);
        failed = plb_step_begin(&self->step, &mine, parcel, (int)n, &c->err);
    }
    if (failed && self->step.phase == PLB_STEP_IDLE) { /* nothing is being sent */
        release_held(self);
    }
    return failed;
}

/* Answer (record, received), or None after the timeout. */
static int wait_for(comm_t *self, plb_py_call_t *c, int64_t timeout_ns)
{
    bool done = false;
    PLB_FAIL_IF(self->step.phase == PLB_STEP_IDLE, &c->err, PLB_ERR_STATE,
                "no collective step is under way");
    self->call = c;
    const int ret = PLB_PY_UNLOCKED(
        c, plb_step_wait(&self->step, timeout_ns, plb_py_tick, &c->state, &done, &c->err));
    if (ret != PLB_OK || !done) {
        return ret;
    }
    release_held(self);
    PyObject *received = self->received;
    self->received = NULL;
    Py_CLEAR(self->into);
    return plb_py_answer(c, Py_BuildValue("NN", plb_py_stats(&self->step.all), received));
}

PLB_PY_DEF(comm, step, "sample:T sends:L into=None",
           "Call begin() and wait().  Returns (record, received): the merged statistics, and\n"
           "a list of (source, [uint8 arrays]).  into: {source: [arrays]}; buffer i of a\n"
           "source goes to its array i, if this is uint8, contiguous, writable, of equal size.")
{
    PLB_PASS(begin(self, c));
    return wait_for(self, c, -1);
}

PLB_PY_DEF(comm, begin, "sample:T sends:L into=None", "Begin a collective step.")
{
    return begin(self, c);
}

PLB_PY_DEF(comm, wait, "seconds",
           "Wait for the step under way.  Returns (record, received), or None if the step is not\n"
           "complete after `seconds` seconds (negative: no limit).")
{
    double s;
    PLB_PASS(PLB_READ(c, PLB_ONE(&s)));
    return wait_for(self, c, (int64_t)(1e9 * s));
}

PLB_PY_DEF(comm, bcast, "array root",
           "Broadcast `array` of rank `root`.  Arrays: contiguous, writable, of equal size.")
{
    PyObject *array;
    Py_buffer view;
    int32_t root;
    PLB_PASS(PLB_READ(c, PLB_ONE(&array), PLB_ONE(&root)));
    PLB_PASS(PyObject_GetBuffer(array, &view, PyBUF_WRITABLE));
    (void)PLB_PY_UNLOCKED(c, plb_comm_bcast(&self->core, view.buf, view.len, root, &c->err));
    PyBuffer_Release(&view);
    return c->code;
}

/* Return a list of the bytes of each rank: `all`, one after the other; NULL: they are in head[].
 */
static PyObject *cut(const comm_t *self, const char *all)
{
    PyObject *out = PyList_New(0);
    for (int r = 0; r < self->core.size; r++) {
        const Py_ssize_t size = (Py_ssize_t)self->size[r];
        plb_py_append(&out, PyBytes_FromStringAndSize(all ? all : self->head[r].bytes, size));
        all = all ? all + size : NULL;
    }
    return out;
}

/* Gather bytes; *all stays NULL if they are in head[].  If a rank has no memory for them, all
 * ranks fail. */
static int gather_bytes(comm_t *self, const Py_buffer *mine, char **all, plb_err_t *err)
{
    int64_t total = 0, most = 0;
    PLB_PASS(plb_comm_heads(&self->core, mine->buf, mine->len, self->head, err));
    for (int r = 0; r < self->core.size; r++) {
        self->size[r] = self->head[r].size;
        total += self->size[r];
        most = self->size[r] > most ? self->size[r] : most;
    }
    if (most <= PLB_HEAD_BYTES) {
        return PLB_OK;
    }
    *all = plb_malloc((size_t)total, 1);
    const int ret =
        *all == NULL
            ? PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld bytes to gather", (long long)total)
            : PLB_OK;
    PLB_PASS(plb_agree(self->core.comm, ret, NULL, err));
    return plb_comm_allgather(&self->core, mine->buf, self->size, self->count, *all, err);
}

PLB_PY_DEF(comm, allgather, "!data",
           "Return the bytes of each rank as a list.  All together must be below 2 GiB.")
{
    Py_buffer mine;
    char *all = NULL;
    PLB_PASS(PyObject_GetBuffer(c->arg, &mine, PyBUF_SIMPLE));
    int ret = PLB_PY_UNLOCKED(c, gather_bytes(self, &mine, &all, &c->err));
    ret = ret == PLB_OK ? plb_py_answer(c, cut(self, all)) : ret;
    plb_free(all);
    PyBuffer_Release(&mine);
    return ret;
}

static void drop_comm(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

PLB_PY_DEF(comm, reduction, "depth",
           "Return a capsule for an object of pylb._core.AtSync or Steps, for up to `depth`\n"
           "nonblocking reductions at a time.  The first call is collective, because it makes\n"
           "communicators.  Only one such object may use the capsule at a time.")
{
    int32_t depth;
    PLB_PASS(PLB_READ(c, PLB_ONE(&depth)));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_reducer_reserve(&self->reducer, depth, &c->err)));
    PyObject *capsule = PyCapsule_New(&self->reducer.face, plb_py_reduction_name, drop_comm);
    if (capsule != NULL && PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)self)) != 0) {
        Py_DECREF(self);
        Py_CLEAR(capsule);
    }
    return plb_py_answer(c, capsule);
}

static int allocate(comm_t *self, MPI_Comm user, plb_err_t *err)
{
    int n = 0;
    MPI_Comm_size(user, &n);
    PLB_PASS_NEW_EACH(n, self->head, self->size);
    PLB_PASS_NEW(self->count, 2 * n);
    return PLB_OK;
}

static int comm_init(comm_t *self, plb_py_call_t *c)
{
    PyObject *user;
    MPI_Comm handle;
    PLB_PASS(PLB_READ(c, PLB_ONE(&user)));
    PLB_PASS(plb_py_mpi_comm(user, &handle));
    PLB_PASS(plb_agree(handle, allocate(self, handle, &c->err), NULL, &c->err));
    PLB_PASS(plb_comm_init(&self->core, handle, &c->err));
    plb_step_init(&self->step, &self->core, take, self);
    plb_reducer_init(&self->reducer, &self->core);
    return PLB_OK;
}

/* Does not free the communicator: that is collective, and Python may call this at any time. */
static void comm_fini(comm_t *self)
{
    /* if a step is under way, MPI still uses the buffers: then they are leaked */
    if (self->step.phase == PLB_STEP_IDLE) {
        release_held(self);
        plb_step_free(&self->step);
    }
    if (self->reducer.begun == self->reducer.taken) {
        plb_reducer_free(&self->reducer);
    }
    PLB_FREE(self->head, self->size, self->count);
    Py_XDECREF(self->received);
    Py_XDECREF(self->into);
}

PLB_PY_DEF(comm, free, "",
           "Free the duplicate communicator.  Collective.  No step may be under way.")
{
    plb_comm_free(&self->core);
    return PLB_OK;
}

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
        "expected ranks of the communicator in ascending order, and starts that rise from 0"));
    return 0;
}

PLB_PY_DEF(
    comm, fail, "out_rank out_start:+ in_rank in_start:+",
    "Tell the partners of an exchange that this rank has failed; receive and drop their rows.")
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

PLB_PY_DEF(comm, py2f, "",
           "Return the duplicate communicator as a number of Fortran; do not free it.")
{
    return plb_py_answer(c, PyLong_FromLong(MPI_Comm_c2f(self->core.comm)));
}

static const plb_py_def_t *const comm_methods[] = {
    &comm_step,      &comm_begin, &comm_wait, &comm_bcast, &comm_allgather,
    &comm_reduction, &comm_fail,  &comm_free, &comm_py2f,  NULL};

#define COMM(X)                                                                                   \
    X(comm, rank, PyLong_FromLong(self->core.rank), "This rank.")                                 \
    X(comm, size, PyLong_FromLong(self->core.size), "Number of ranks.")                           \
    X(comm, pending, PyBool_FromLong(self->step.phase != PLB_STEP_IDLE),                          \
      "Whether a step is under way.")
PLB_PY_PROPERTIES(comm, COMM)

PLB_PY_TYPE(
    comm, "pylb._mpi.Comm", "comm",
    "Collective steps on a duplicate of an mpi4py communicator, which is made collectively.",
    {Py_tp_getset, comm_getset}, )

PLB_PY_DEF(fn, number_of, "!comm",
           "Return an intracommunicator as a number of Fortran.  MPIError: it was freed.")
{
    MPI_Comm handle;
    int inter = 0;
    PLB_PASS(plb_py_mpi_comm(c->arg, &handle));
    PLB_FAIL_IF(handle == MPI_COMM_NULL, &c->err, PLB_ERR_MPI,
                "comm is MPI.COMM_NULL: it was freed, or this rank is not part of it");
    MPI_Comm_test_inter(handle, &inter);
    PLB_FAIL_IF(inter, &c->err, PLB_ERR_VALUE,
                "comm is an intercommunicator: expected an intracommunicator");
    return plb_py_answer(c, PyLong_FromLong(MPI_Comm_c2f(handle)));
}

/* The next three have the names that mpi4py gives them. */

PLB_PY_DEF(fn, Is_initialized, "", "Whether MPI has started.")
{
    int yes = 0;
    MPI_Initialized(&yes);
    return plb_py_answer(c, PyBool_FromLong(yes));
}

PLB_PY_DEF(fn, Is_finalized, "", "Whether MPI has ended.")
{
    int yes = 0;
    MPI_Finalized(&yes);
    return plb_py_answer(c, PyBool_FromLong(yes));
}

PLB_PY_DEF(fn, Abort, "code", "End all ranks of the program.")
{
    int32_t code;
    PLB_PASS(PLB_READ(c, PLB_ONE(&code)));
    MPI_Abort(MPI_COMM_WORLD, code);
    return PLB_OK;
}

PLB_PY_DEF(fn, world, "", "Return this rank in MPI_COMM_WORLD, and the number of ranks.")
{
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return plb_py_answer(c, Py_BuildValue("ii", rank, size));
}

PLB_PY_DEF(fn, library_version, "", "Return the version of the MPI library of this module.")
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    return plb_py_answer(c, PyUnicode_FromStringAndSize(text, n));
}

/* ---- exchanges with a known pattern --------------------------------------------------------- */

/* The rows of an array that an exchange copies, and their order. */
typedef struct order {
    const int32_t *index;  /* [n] items; NULL: all items, in the order of the array */
    const int64_t *offset; /* [items + 1] first row of each item; NULL: each item is one row */
    int64_t n, items;      /* length of `index`; number of items in the array */
} order_t;

/** Return the number of rows of the array, and set *travel to the number of rows that are copied.
 * Return -1 if an index is not 0 ... items-1, or if `offset` does not rise from 0. */
static int64_t order_rows(const order_t *o, int64_t *travel)
{
    const int64_t rows = o->offset != NULL && o->items >= 0 ? o->offset[o->items] : o->items;
    bool good = o->offset == NULL || plb_py_rises(o->offset, o->items, rows);
    *travel = o->index != NULL ? 0 : rows;
    for (int64_t i = 0; good && o->index != NULL && i < o->n; i++) {
        const int32_t k = o->index[i];
        good = k >= 0 && k < o->items;
        *travel += !good ? 0 : o->offset != NULL ? o->offset[k + 1] - o->offset[k] : 1;
    }
    return good ? rows : -1;
}

/* An exchange in one direction of a plan (pylb.comm.plan), for rows of one dtype and shape. */
typedef struct lane {
    PLB_PY_HEAD plb_transfer_t core;
    PyObject *comm;
    plb_py_held_t held; /* the arrays that say what is sent and received */
    plb_side_t out, in;
    order_t go, come; /* order of the rows that are sent (go) and received (come) */
    int64_t rows, new_rows, row_bytes;
    PyArray_Descr *descr;
    int32_t tag;
    int ndim, busy;
    npy_intp dim[NPY_MAXDIMS];
    char *packed, *came; /* copies of the rows that are sent and received, in the order in which
                            they travel; NULL: no copy is needed */
    PyObject *send, *receive;
} lane_t;

/* Read (rank, start, order, offset) of one side; return the number of rows of its array, or -1. */
static int64_t read_side(plb_py_call_t *c, PyObject *tuple, int64_t items, int n_ranks,
                         plb_side_t *side, order_t *order)
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
    const int64_t rows = order_rows(order, &travel);
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
        plb_gather(from, self->go.offset, self->go.index, self->go.n, self->row_bytes,
                   self->packed);
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
        plb_scatter(self->came, self->come.offset, self->come.index, self->come.n, self->row_bytes,
                    PyArray_BYTES((PyArrayObject *)self->receive));
    }
    return PLB_OK;
}

static PyObject *lane_finish(lane_t *self, plb_py_call_t *c)
{
    const int ret = PLB_PY_UNLOCKED(c, wait_and_unpack(self, &c->state, &c->err));
    /* a signal has ended the wait, but not the exchange: MPI still uses the arrays */
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

PLB_PY_DEF(lane, begin, "rows out", "Begin to send rows.")
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
    for (int i = 0; i < core->n_receives; i++) {
        if (core->unlike[i]) {
            plb_py_append(&out, PyLong_FromLong(core->peer[i]));
        }
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
        PLB_FREE(self->packed, self->came);
        Py_XDECREF(self->comm);
    }
    plb_py_release(&self->held);
    Py_XDECREF(self->descr);
}

static int lane_init(lane_t *self, plb_py_call_t *c)
{
    PyObject *owner, *sides, *object;
    PLB_PASS(PLB_READ(c, PLB_ONE(&owner), PLB_ONE(&sides), PLB_ONE(&object), PLB_ONE(&self->tag)));
    PLB_PASS(plb_py_refuse(Py_TYPE(owner)->tp_dealloc != comm_dealloc || !PyArray_Check(object),
                           PyExc_TypeError, "comm, like: expected a Comm and an array"));
    plb_comm_t *comm = &((comm_t *)owner)->core;
    self->comm = Py_NewRef(owner);
    PLB_PASS(lane_sides(self, c, sides, comm->size));
    self->held = c->held; /* the lane needs the arrays as long as it exists */
    c->held.n = 0;
    PyArrayObject *like = (PyArrayObject *)object;
    PLB_PASS(plb_py_refuse(
        PyArray_NDIM(like) < 1 || PyDataType_REFCHK(PyArray_DESCR(like)), PyExc_ValueError,
        "like: expected an array of one or more dimensions, without Python objects"));
    self->descr = (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(like));
    self->ndim = PyArray_NDIM(like);
    self->row_bytes = PyDataType_ELSIZE(self->descr);
    for (int k = 1; k < self->ndim; k++) {
        self->dim[k] = PyArray_DIM(like, k);
        self->row_bytes *= self->dim[k];
    }
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

PLB_PY_TYPE(
    lane, "pylb._mpi.Lane", "comm sides:T like tag",
    "One direction of a plan, for rows of the dtype and shape of `like`.  sides: a tuple (out,\n"
    "items, in, new_items).  out is (rank, start, order, offset) for the array that is sent, and\n"
    "items its number of items; in and new_items are the same for the array received.  comm: a\n"
    "Comm that is used for exchanges only.",
    {Py_tp_getset, lane_getset}, )

/* ---- work lent within a step ---------------------------------------------------------------- */

typedef struct share {
    PLB_PY_HEAD plb_sharer_t *core;
    plb_patience_t patience;
    /* of the call under way */
    plb_py_call_t *call;
    int64_t row_bytes;
    PyObject *own, *pack, *guest, *take; /* borrowed */
    PyObject *type, *value, *traceback;  /* the first exception of a callback, owned */
} share_t;

/* Further callbacks must not see an exception, so the first one is kept here. */
static void keep_exception(share_t *self)
{
    if (self->type == NULL) {
        PyErr_Fetch(&self->type, &self->value, &self->traceback);
    }
    PyErr_Clear();
}

/* Call a function of the program, and release the GIL. */
static int call_back(share_t *self, PyObject *function, PyObject *args)
{
    PyObject *out = args != NULL ? PyObject_CallObject(function, args) : NULL;
    const int ret = out != NULL ? PLB_OK : PLB_ERR_CALLBACK;
    Py_XDECREF(args);
    Py_XDECREF(out);
    if (ret != PLB_OK) {
        keep_exception(self);
    }
    self->call->state = PyEval_SaveThread();
    return ret;
}

static PyObject *rows_of(int64_t first, const int64_t *row, int64_t n)
{
    if (row != NULL) {
        return plb_py_copy(row, n, NPY_INT64);
    }
    PyObject *from = PyLong_FromLongLong(first), *to = PyLong_FromLongLong(first + n);
    PyObject *out = from != NULL && to != NULL ? PySlice_New(from, to, NULL) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    return out;
}

static int own(void *arg, int64_t first, const int64_t *row, int64_t n, plb_err_t *err)
{
    share_t *self = arg;
    PyEval_RestoreThread(self->call->state);
    return call_back(self, self->own, Py_BuildValue("(N)", rows_of(first, row, n)));
}

static int pack(void *arg, const int64_t *row, int64_t n, char *to, plb_err_t *err)
{
    share_t *self = arg;
    const int64_t bytes = n * self->row_bytes;
    PyEval_RestoreThread(self->call->state);
    PyObject *view = PyMemoryView_FromMemory(to, bytes, PyBUF_WRITE);
    return call_back(self, self->pack, Py_BuildValue("NN", rows_of(0, row, n), view));
}

/* The function returns (failed, bytes); it catches the program's exceptions. */
static int guest(void *arg, const char *rows, int64_t n, char **answer, int64_t *bytes,
                 plb_err_t *err)
{
    share_t *self = arg;
    const int64_t size = n * self->row_bytes;
    int failed = 1;
    PyEval_RestoreThread(self->call->state);
    PyObject *view = PyMemoryView_FromMemory((char *)rows, size, PyBUF_READ);
    PyObject *out = PyObject_CallFunction(self->guest, "NL", view, (long long)n), *data;
    if (out != NULL && PyArg_ParseTuple(out, "pS", &failed, &data)) {
        *bytes = PyBytes_GET_SIZE(data);
        *answer = plb_malloc((size_t)*bytes, 1);
        if (*answer != NULL) {
            memcpy(*answer, PyBytes_AS_STRING(data), (size_t)*bytes);
        } else {
            failed = 1;
        }
    }
    Py_XDECREF(out);
    if (PyErr_Occurred()) {
        keep_exception(self);
    }
    self->call->state = PyEval_SaveThread();
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "rows of another rank failed") : PLB_OK;
}

static int share_take(void *arg, int from, bool failed, const int64_t *row, int64_t n,
                      const char *answer, int64_t bytes, plb_err_t *err)
{
    share_t *self = arg;
    PyEval_RestoreThread(self->call->state);
    PyObject *view = PyMemoryView_FromMemory((char *)answer, bytes, PyBUF_READ);
    return call_back(self, self->take,
                     Py_BuildValue("iiNN", from, (int)failed, rows_of(0, row, n), view));
}

#define X(name, unit, help) PLB_PY_FIELD(plb_share_figures_t, name),
static const plb_py_field_t fields[] = {PLB_SHARE_FIGURES(X){0}};
#undef X

PLB_PY_DEF(
    share, call, "n row_bytes kind cost:? chunk failed own pack guest take",
    "Compute all rows of all ranks; collective.  Returns the figures of the call, a tuple.\n"
    "own(rows): compute; pack(rows, out): write to a memoryview; guest(data, n): compute\n"
    "rows of another rank, and return (failed, bytes); take(rank, failed, rows, data).\n"
    "failed: this rank has wrong arguments; then all ranks fail.")
{
    plb_shared_rows_t rows = {
        .arg = self, .own = own, .pack = pack, .guest = guest, .take = share_take};
    plb_share_figures_t figures;
    bool failed;
    PLB_PASS(PLB_READ(c, PLB_ONE(&rows.n), PLB_ONE(&rows.row_bytes), PLB_ONE(&rows.kind),
                      PLB_MANY(&rows.cost, &rows.n), PLB_ONE(&rows.chunk), PLB_ONE(&failed),
                      PLB_ONE(&self->own), PLB_ONE(&self->pack), PLB_ONE(&self->guest),
                      PLB_ONE(&self->take)));
    rows.failed = failed ? PLB_ERR_VALUE : PLB_OK;
    self->call = c;
    self->row_bytes = rows.row_bytes;
    const int ret = PLB_PY_UNLOCKED(
        c, plb_share_call(self->core, &rows, plb_py_tick, &c->state, &figures, &c->err));
    if (self->type != NULL) {
        PyErr_Restore(self->type, self->value, self->traceback);
        self->type = self->value = self->traceback = NULL;
    }
    PLB_PASS(ret);
    return plb_py_answer(c, plb_py_tuple(fields, &figures));
}

PLB_PY_DEF(share, holds, "",
           "Whether this call needs no `call`: each rank just computes its rows.")
{
    return plb_py_answer(c, PyBool_FromLong(plb_share_holds(self->core)));
}

PLB_PY_DEF(share, leave, "",
           "Say that this rank has failed; the others learn it when they next decide.")
{
    plb_share_leave(self->core, PLB_ERR_CALLBACK);
    return PLB_OK;
}

PLB_PY_DEF(share, look, "ends",
           "While this rank waits elsewhere: leave if others have long waited for it in call().")
{
    bool ends;
    PLB_PASS(PLB_READ(c, PLB_ONE(&ends)));
    plb_share_look(self->core, ends);
    return PLB_OK;
}

PLB_PY_DEF(share, seconds, "",
           "Seconds of each row in the most recent call, at the speed of this rank.")
{
    int64_t n = 0;
    const double none = 0.0; /* plb_py_copy makes None of NULL */
    const double *seconds = plb_share_seconds(self->core, &n);
    return plb_py_answer(c, plb_py_copy(n > 0 ? seconds : &none, n, NPY_DOUBLE));
}

static void say_late(void *arg)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PySys_WriteStderr("pylb: a rank has waited 10 s for the other ranks in share()\n");
    PyGILState_Release(state);
}

static int share_init(share_t *self, plb_py_call_t *c)
{
    PyObject *user;
    MPI_Comm handle;
    plb_share_options_t options = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&user), PLB_ONE(&options.lend), PLB_ONE(&options.reactive),
                      PLB_ONE(&options.beta)));
    PLB_PASS(plb_py_mpi_comm(user, &handle));
    self->patience = (plb_patience_t){say_late, NULL};
    return plb_share_new(&self->core, handle, &options, &self->patience, &c->err);
}

/* Does not free the communicator: that is collective, and Python may call this at any time. */
static void share_fini(share_t *self)
{
    plb_share_free(self->core);
}

static const plb_py_def_t *const share_methods[] = {&share_call, &share_holds,   &share_leave,
                                                    &share_look, &share_seconds, NULL};

PLB_PY_TYPE(share, "pylb._mpi.Share", "comm lend reactive beta",
            "Lets the ranks of an mpi4py communicator compute rows for each other.", )

static const plb_py_def_t *const methods[] = {
    &fn_number_of, &fn_library_version, &fn_Is_initialized, &fn_Is_finalized, &fn_Abort, &fn_world,
    NULL};

static int mpi_exec(PyObject *module)
{
    static const plb_py_room_t room = {methods, {&comm_spec, &lane_spec, &share_spec}, NULL};
    PLB_PASS(PyArray_ImportNumPyAPI());
    return plb_py_add(module, &room);
}

PLB_PY_MODULE(_mpi, "Collective steps over MPI.", mpi_exec)
