/* Exchanges whose pattern is known, over MPI; linked into pylb._mpi. */
#include "bind/views.h"

#include <mpi4py/mpi4py.h>

#include "comm/route.h"
#include "comm/transfer.h"

typedef struct exchanger_object {
    PyObject_HEAD plb_comm_t core;
} exchanger_object_t;

/* One direction of a plan, for rows of one kind. */
typedef struct lane_object {
    PyObject_HEAD plb_transfer_t core;
    PyObject *exchanger;
    plb_py_held_t held; /* the arrays of the two sides */
    plb_side_t out, in;
    const int32_t *out_order, *in_order; /* or NULL */
    const int64_t *out_offset, *in_offset;
    int64_t n_out, n_in; /* their lengths */
    int64_t rows, new_rows, row_bytes;
    PyArray_Descr *descr;
    int tag, ndim, busy;
    npy_intp dim[NPY_MAXDIMS];
    char *packed, *came; /* rows as they travel, where that is not their own order */
    PyObject *send, *receive;
} lane_object_t;

/* ---- sides ---------------------------------------------------------------------------------- */

/* rank[n] int32 and start[n+1] int64, checked; 0, or -1 with an exception. */
static int side_of(plb_py_held_t *held, PyObject *rank, PyObject *start, int n_ranks,
                   plb_side_t *out)
{
    PyArrayObject *a = plb_py_hold(held, rank, NPY_INT32, 1);
    PyArrayObject *b = a ? plb_py_hold(held, start, NPY_INT64, 1) : NULL;
    if (b == NULL) {
        return -1;
    }
    const npy_intp n = PyArray_SIZE(a);
    *out = (plb_side_t){(int32_t)n, PyArray_DATA(a), PyArray_DATA(b), NULL};
    int ok = n <= n_ranks && PyArray_SIZE(b) == n + 1 && out->start[0] == 0;
    for (npy_intp i = 0; ok && i < n; i++) {
        ok = out->rank[i] >= 0 && out->rank[i] < n_ranks && out->start[i] <= out->start[i + 1] &&
             (i == 0 || out->rank[i - 1] < out->rank[i]);
    }
    if (!ok) {
        PyErr_SetString(PyExc_ValueError, "rank, start: expected ascending ranks, and starts from "
                                          "0 that do not fall, one more than ranks");
    }
    return ok ? 0 : -1;
}

/* ---- a lane --------------------------------------------------------------------------------- */

/* order[] and offset[] of a side, or None; the rows of the array that they index, or -1 with an
 * exception. */
static int64_t indices(plb_py_held_t *held, const plb_side_t *side, PyObject *order,
                       PyObject *offset, long long items, const int32_t **index,
                       const int64_t **start, int64_t *n_index)
{
    PyArrayObject *a = plb_py_hold(held, order, NPY_INT32, 1);
    PyArrayObject *b = PyErr_Occurred() ? NULL : plb_py_hold(held, offset, NPY_INT64, 1);
    if (PyErr_Occurred()) {
        return -1;
    }
    *index = a ? PyArray_DATA(a) : NULL;
    *start = b ? PyArray_DATA(b) : NULL;
    int ok = b == NULL || (PyArray_SIZE(b) == items + 1 && (*start)[0] == 0);
    for (npy_intp i = 0; ok && b != NULL && i < items; i++) {
        ok = (*start)[i] <= (*start)[i + 1];
    }
    const npy_intp n = a ? PyArray_SIZE(a) : 0;
    *n_index = n;
    int64_t travel = b != NULL && a == NULL && ok ? (*start)[items] : b == NULL ? n : 0;
    for (npy_intp i = 0; ok && i < n; i++) {
        ok = (*index)[i] >= 0 && (*index)[i] < items;
        travel += ok && b != NULL ? (*start)[(*index)[i] + 1] - (*start)[(*index)[i]] : 0;
    }
    if (a == NULL && b == NULL) {
        travel = items;
    }
    if (!ok || travel != side->start[side->n]) {
        PyErr_SetString(PyExc_ValueError, "order, offset: expected items, offsets that do not "
                                          "fall, and as many rows as travel");
        return -1;
    }
    return b != NULL ? (*start)[items] : items;
}

static int lane_sides(lane_object_t *self, PyObject *args, int n_ranks)
{
    PyObject *out[4], *in[4];
    long long items, new_items;
    if (!PyArg_ParseTuple(args, "(OOOO)L(OOOO)L", &out[0], &out[1], &out[2], &out[3], &items,
                          &in[0], &in[1], &in[2], &in[3], &new_items) ||
        side_of(&self->held, out[0], out[1], n_ranks, &self->out) != 0 ||
        side_of(&self->held, in[0], in[1], n_ranks, &self->in) != 0) {
        return -1;
    }
    self->rows = indices(&self->held, &self->out, out[2], out[3], items, &self->out_order,
                         &self->out_offset, &self->n_out);
    self->new_rows = self->rows < 0 ? -1
                                    : indices(&self->held, &self->in, in[2], in[3], new_items,
                                              &self->in_order, &self->in_offset, &self->n_in);
    return self->new_rows < 0 ? -1 : 0;
}

/* The kind of rows: dtype and shape of an array like those that will travel. */
static int lane_kind(lane_object_t *self, PyArrayObject *like)
{
    if (PyArray_NDIM(like) < 1 || PyDataType_REFCHK(PyArray_DESCR(like))) {
        PyErr_SetString(PyExc_ValueError, "like: expected rows without objects");
        return -1;
    }
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

static int lane_memory(lane_object_t *self, plb_comm_t *comm)
{
    plb_err_t err_, *err = &err_;
    int ret = plb_transfer_init(&self->core, comm, self->out.n + self->in.n, err);
    if (ret == PLB_OK && self->out_order != NULL) {
        PLB_NEW(self->packed, self->out.start[self->out.n] * self->row_bytes);
    }
    if (ret == PLB_OK && self->in_order != NULL) {
        PLB_NEW(self->came, self->in.start[self->in.n] * self->row_bytes);
    }
out:
    if (ret != PLB_OK) {
        plb_py_raise(ret, err);
    }
    return ret == PLB_OK ? 0 : -1;
}

/* Whether an array has so many rows of this lane's kind, contiguous. */
static int fits(const lane_object_t *self, PyObject *object, int64_t rows)
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

/* A new reference to `out`, or to a new array where it is None; rows that nothing comes for are
 * zero. */
static PyObject *answer(lane_object_t *self, PyObject *out)
{
    if (out != Py_None) {
        return Py_NewRef(out);
    }
    npy_intp dim[NPY_MAXDIMS];
    memcpy(dim, self->dim, sizeof dim);
    dim[0] = self->new_rows;
    Py_INCREF(self->descr);
    const int all = self->in_order == NULL || self->in.start[self->in.n] >= self->new_rows;
    return all ? PyArray_Empty(self->ndim, dim, self->descr, 0)
               : PyArray_Zeros(self->ndim, dim, self->descr, 0);
}

/* 0; 1: the arrays do not fit, nothing has happened; -1 with an exception. */
static int lane_start(lane_object_t *self, PyObject *args)
{
    PyObject *send, *out;
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "OO", &send, &out)) {
        return -1;
    }
    if (self->busy || !fits(self, send, self->rows) ||
        (out != Py_None &&
         !(fits(self, out, self->new_rows) && PyArray_ISWRITEABLE((PyArrayObject *)out)))) {
        return 1;
    }
    self->receive = answer(self, out);
    if (self->receive == NULL) {
        return -1;
    }
    self->send = Py_NewRef(send);
    self->busy = 1;
    char *from = PyArray_BYTES((PyArrayObject *)send);
    self->out.data = self->out_order ? self->packed : from;
    self->in.data = self->in_order ? self->came : PyArray_BYTES((PyArrayObject *)self->receive);
    int ret;
    Py_BEGIN_ALLOW_THREADS;
    if (self->out_order != NULL && self->out_offset != NULL) {
        plb_gather_sized(from, self->out_offset, self->out_order, self->n_out, self->row_bytes,
                         self->packed);
    } else if (self->out_order != NULL) {
        plb_gather(from, self->out_order, self->n_out, self->row_bytes, self->packed);
    }
    ret = plb_transfer_begin(&self->core, &self->out, &self->in, self->row_bytes, self->tag, &err);
    Py_END_ALLOW_THREADS;
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        return -1;
    }
    return 0;
}

static PyObject *lane_finish(lane_object_t *self)
{
    plb_err_t err = {0, ""};
    PyThreadState *state = PyEval_SaveThread();
    const int ret = plb_transfer_wait(&self->core, plb_py_tick, &state, &err);
    if (ret == PLB_OK && self->in_order != NULL) {
        char *to = PyArray_BYTES((PyArrayObject *)self->receive);
        if (self->in_offset != NULL) {
            plb_scatter_sized(self->came, self->in_offset, self->in_order, self->n_in,
                              self->row_bytes, to);
        } else {
            plb_scatter(self->came, self->in_order, self->n_in, self->row_bytes, to);
        }
    }
    PyEval_RestoreThread(state);
    if (ret == PLB_ERR_INTERRUPTED) { /* still under way: MPI looks at the arrays */
        return plb_py_raise(ret, &err);
    }
    PyObject *out = self->receive;
    self->receive = NULL;
    Py_CLEAR(self->send);
    self->busy = 0;
    if (ret != PLB_OK) {
        Py_DECREF(out);
        return plb_py_raise(ret, &err);
    }
    return out;
}

PyDoc_STRVAR(begin_doc, "begin($self, rows, out, /)\n--\n\n"
                        "Send rows; out may be None.  False, and nothing else, where they do not\n"
                        "fit, or the lane is under way.");
static PyObject *lane_begin(PyObject *object, PyObject *args)
{
    const int started = lane_start((lane_object_t *)object, args);
    return started < 0 ? NULL : PyBool_FromLong(started == 0);
}

PyDoc_STRVAR(wait_doc, "wait($self, /)\n--\n\nThe rows that have come.");
static PyObject *lane_wait(PyObject *object, PyObject *unused)
{
    (void)unused;
    lane_object_t *self = (lane_object_t *)object;
    if (!self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "nothing is under way");
        return NULL;
    }
    return lane_finish(self);
}

PyDoc_STRVAR(move_doc, "move($self, rows, out, /)\n--\n\n"
                       "begin() and wait(); None where the rows do not fit.");
static PyObject *lane_move(PyObject *object, PyObject *args)
{
    lane_object_t *self = (lane_object_t *)object;
    const int started = lane_start(self, args);
    if (started > 0) {
        Py_RETURN_NONE;
    }
    return started < 0 ? NULL : lane_finish(self);
}

/* What MPI still looks at stays for ever: better than memory that changes under it. */
static void lane_dealloc(PyObject *object)
{
    lane_object_t *self = (lane_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (!self->busy) {
        plb_transfer_free(&self->core);
        plb_free(self->packed);
        plb_free(self->came);
        Py_XDECREF(self->exchanger);
    }
    plb_py_release(&self->held);
    Py_XDECREF(self->descr);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"exchanger", "sides", "like", "tag", NULL};
    PyObject *exchanger, *sides, *like;
    int tag;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!i:Lane", names, &exchanger, &PyTuple_Type,
                                     &sides, &PyArray_Type, &like, &tag)) {
        return NULL;
    }
    PyObject *module = PyType_GetModule(type);
    PyObject *wanted = module ? PyObject_GetAttrString(module, "Exchanger") : NULL;
    const int is = wanted ? PyObject_IsInstance(exchanger, wanted) : -1;
    Py_XDECREF(wanted);
    if (is != 1) {
        if (is == 0) {
            PyErr_SetString(PyExc_TypeError, "exchanger: expected an Exchanger");
        }
        return NULL;
    }
    lane_object_t *self = (lane_object_t *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    plb_comm_t *comm = &((exchanger_object_t *)exchanger)->core;
    self->exchanger = Py_NewRef(exchanger);
    self->tag = tag;
    if (lane_sides(self, sides, comm->size) != 0 || lane_kind(self, (PyArrayObject *)like) != 0 ||
        lane_memory(self, comm) != 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyMethodDef lane_methods[] = {
    {"begin", lane_begin, METH_VARARGS, begin_doc},
    {"wait", lane_wait, METH_NOARGS, wait_doc},
    {"move", lane_move, METH_VARARGS, move_doc},
    {0},
};

PyDoc_STRVAR(
    lane_doc,
    "Lane(exchanger, sides, like, tag)\n--\n\n"
    "One direction of a plan for rows of the kind of `like`.  Sides: (rank, start, order,\n"
    "offset), items, and the same of what comes.");
static PyType_Slot lane_slots[] = {
    {Py_tp_doc, (void *)lane_doc},
    {Py_tp_new, lane_new},
    {Py_tp_dealloc, lane_dealloc},
    {Py_tp_methods, lane_methods},
    {0, NULL},
};

static PyType_Spec lane_spec = {
    .name = "pylb._mpi.Lane",
    .basicsize = sizeof(lane_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = lane_slots,
};

/* ---- a communicator for exchanges ----------------------------------------------------------- */

PyDoc_STRVAR(fail_doc, "fail($self, out_rank, out_start, in_rank, in_start, /)\n--\n\n"
                       "In place of an exchange: tell the partners that this rank has failed.");
static PyObject *exchanger_fail(PyObject *object, PyObject *args)
{
    exchanger_object_t *self = (exchanger_object_t *)object;
    PyObject *out_rank, *out_start, *in_rank, *in_start;
    plb_py_held_t held = {0};
    plb_side_t out, in;
    plb_err_t err = {0, ""};
    int ret = PLB_OK;
    if (PyArg_ParseTuple(args, "OOOO", &out_rank, &out_start, &in_rank, &in_start) &&
        side_of(&held, out_rank, out_start, self->core.size, &out) == 0 &&
        side_of(&held, in_rank, in_start, self->core.size, &in) == 0) {
        PyThreadState *state = PyEval_SaveThread();
        ret = plb_transfer_fail(&self->core, &out, &in, plb_py_tick, &state, &err);
        PyEval_RestoreThread(state);
    }
    plb_py_release(&held);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *exchanger_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"comm", NULL};
    PyObject *user;
    plb_err_t err = {0, ""};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Exchanger", names, &user) ||
        import_mpi4py() != 0) {
        return NULL;
    }
    MPI_Comm *handle = PyMPIComm_Get(user);
    exchanger_object_t *self = handle ? (exchanger_object_t *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL) {
        return NULL;
    }
    const int ret = plb_comm_init(&self->core, *handle, &err);
    if (ret != PLB_OK) {
        Py_DECREF(self);
        return plb_py_raise(ret, &err);
    }
    return (PyObject *)self;
}

/* The duplicate is freed by free() alone: that is collective, and garbage is collected any time.
 */
static void exchanger_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(free_doc, "free($self, /)\n--\n\nFree the duplicate.  Collective; nothing is under way.");
static PyObject *exchanger_free(PyObject *object, PyObject *unused)
{
    (void)unused;
    plb_comm_free(&((exchanger_object_t *)object)->core);
    Py_RETURN_NONE;
}

static PyMethodDef exchanger_methods[] = {
    {"fail", exchanger_fail, METH_VARARGS, fail_doc},
    {"free", exchanger_free, METH_NOARGS, free_doc},
    {0},
};

PyDoc_STRVAR(exchanger_doc, "Exchanger(comm)\n--\n\n"
                            "Exchanges on a duplicate of a communicator of mpi4py.  Collective.");
static PyType_Slot exchanger_slots[] = {
    {Py_tp_doc, (void *)exchanger_doc},
    {Py_tp_new, exchanger_new},
    {Py_tp_dealloc, exchanger_dealloc},
    {Py_tp_methods, exchanger_methods},
    {0, NULL},
};

static PyType_Spec exchanger_spec = {
    .name = "pylb._mpi.Exchanger",
    .basicsize = sizeof(exchanger_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = exchanger_slots,
};

int plb_py_add_exchange(PyObject *module)
{
    PyType_Spec *specs[] = {&lane_spec, &exchanger_spec};
    for (int i = 0; i < 2; i++) {
        PyObject *type = PyType_FromModuleAndSpec(module, specs[i], NULL);
        const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
        Py_XDECREF(type);
        if (failed) {
            return -1;
        }
    }
    return 0;
}
