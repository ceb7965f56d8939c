/* Python binding of csrc/comm: collective steps on a duplicate of an mpi4py communicator. */
#include "bind/convert.h"
#include "bind/mpi_comm.h"
#include "bind/rooms.h"

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
    PLB_PASS(plb_py_sample(sample, self->core.rank, &mine));
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

PLB_PY_DEF(comm, begin, "sample:T sends:L into=None",
           "Begin a collective step.  sample: see csrc/bind/rooms.h; sends: a list of (rank,\n"
           "[buffers]), at most one entry for each other rank; into: see step().")
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
    PLB_PASS(plb_agree(self->core.comm, ret, err));
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
    PLB_PASS(plb_agree(handle, allocate(self, handle, &c->err), &c->err));
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

static const plb_py_def_t *const comm_methods[] = {
    &comm_step,      &comm_begin,     &comm_wait, &comm_bcast,
    &comm_allgather, &comm_reduction, &comm_free, NULL};

#define COMM(X)                                                                                   \
    X(comm, number, PyLong_FromLong(MPI_Comm_c2f(self->core.comm)),                               \
      "The duplicate communicator, as a number of Fortran; do not free it.")                      \
    X(comm, rank, PyLong_FromLong(self->core.rank), "This rank.")                                 \
    X(comm, size, PyLong_FromLong(self->core.size), "Number of ranks.")                           \
    X(comm, pending, PyBool_FromLong(self->step.phase != PLB_STEP_IDLE),                          \
      "Whether a step is under way.")
PLB_PY_PROPERTIES(comm, COMM)

PLB_PY_TYPE(
    comm, "pylb._mpi.Comm", "comm",
    "Collective steps on a duplicate of an mpi4py communicator, which is made collectively.",
    {Py_tp_getset, comm_getset}, )

PLB_PY_DEF(fn, number_of, "!comm", "Return a communicator as a number of Fortran.")
{
    MPI_Comm handle;
    PLB_PASS(plb_py_mpi_comm(c->arg, &handle));
    return plb_py_answer(c, PyLong_FromLong(MPI_Comm_c2f(handle)));
}

PLB_PY_DEF(fn, library_version, "", "Return the version of the MPI library of this module.")
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    return plb_py_answer(c, PyUnicode_FromStringAndSize(text, n));
}

static const plb_py_def_t *const methods[] = {&fn_number_of, &fn_library_version, NULL};

const plb_py_room_t plb_py_comm_ranks = {methods, {&comm_spec}, NULL};
