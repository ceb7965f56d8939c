/* Python binding of the part of csrc/comm without MPI. */
#include "bind/convert.h"
#include "bind/order.h"
#include "comm/share.h"

PLB_PY_DEF(fn, route, "destination n_ranks",
           "Return the route (rank, start, order) of items to the ranks destination[n]: items\n"
           "start[i] ... start[i+1]-1 of `order` go to rank[i].  order None: already sorted.")
{
    const int32_t *destination;
    int64_t n = -1;
    int32_t n_ranks;
    plb_route_t found;
    PLB_PASS(PLB_READ(c, PLB_MANY(&destination, &n), PLB_ONE(&n_ranks)));
    PLB_PASS(plb_py_refuse(n_ranks < 1, PyExc_ValueError, "n_ranks: expected 1 or more"));
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_route_init(&found, destination, n, n_ranks, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NNN", plb_py_take(found.rank, found.n_peers, NPY_INT32),
                                          plb_py_take(found.start, found.n_peers + 1, NPY_INT64),
                                          plb_py_take(found.order, n, NPY_INT32)));
}

static int is_plain(PyObject *object)
{
    return PyArray_Check(object) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)object) &&
           !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)object));
}

static int copy(const plb_py_order_t *order, int64_t row_bytes, const char *from, int64_t rows,
                char *to, int64_t packed_bytes, bool gather)
{
    int64_t travel;
    if (plb_py_order_rows(order, &travel) != rows || travel * row_bytes != packed_bytes) {
        return PLB_ERR_VALUE;
    }
    (gather ? plb_gather : plb_scatter)(from, order->offset, order->index, order->n, row_bytes,
                                        to);
    return PLB_OK;
}

static int reorder(plb_py_call_t *c, bool gather)
{
    PyObject *from, *to;
    plb_py_order_t order = {.n = -1};
    int64_t row_bytes, items = -1;
    PLB_PASS(PLB_READ(c, PLB_ONE(&from), PLB_MANY(&order.index, &order.n), PLB_ONE(&to),
                      PLB_ONE(&row_bytes), PLB_MANY(&order.offset, &items)));
    if (is_plain(from) && is_plain(to) && row_bytes > 0 &&
        PyArray_ISWRITEABLE((PyArrayObject *)to)) {
        PyArrayObject *in = (PyArrayObject *)from, *out = (PyArrayObject *)to;
        const int64_t bytes = PyArray_NBYTES(gather ? in : out), rows = bytes / row_bytes;
        order.items = order.offset != NULL ? items - 1 : rows;
        if (bytes % row_bytes == 0 &&
            PLB_PY_UNLOCKED(c, copy(&order, row_bytes, PyArray_BYTES(in), rows, PyArray_BYTES(out),
                                    PyArray_NBYTES(gather ? out : in), gather)) == PLB_OK) {
            return PLB_OK;
        }
    }
    return plb_py_refuse(
        true, PyExc_ValueError,
        "expected contiguous arrays without Python objects (the output writable), "
        "rows of row_bytes bytes, valid indices, offsets that rise from 0, and as "
        "many rows in the packed array as are copied");
}

PLB_PY_DEF(fn, gather, "items index out row_bytes offset:?",
           "Copy items: out[i] = items[index[i]].  offset: item k has the rows offset[k] ...\n"
           "offset[k+1]-1; None: each item is one row.")
{
    return reorder(c, true);
}

PLB_PY_DEF(fn, scatter, "packed index out row_bytes offset:?",
           "Copy items: out[index[i]] = packed[i].  This is the reverse of gather().")
{
    return reorder(c, false);
}

static void homes(const int64_t *id, int64_t n, int32_t n_ranks, int32_t *rank)
{
    for (int64_t i = 0; i < n; i++) {
        rank[i] = plb_home(id[i], n_ranks);
    }
}

PLB_PY_DEF(fn, home, "ids n_ranks",
           "Return the rank that keeps the directory entry of each id, int32.")
{
    const int64_t *id;
    int64_t n = -1;
    int32_t n_ranks;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n), PLB_ONE(&n_ranks)));
    int32_t *rank = plb_py_new(c, NPY_INT32, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, (homes(id, n, n_ranks, rank), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, rank));
}

static const plb_py_def_t *const methods[] = {&fn_route, &fn_gather, &fn_scatter, &fn_home, NULL};

/* ---- a rank's part of a directory ----------------------------------------------------------- */

typedef struct table {
    PLB_PY_HEAD plb_table_t core;
    PyArrayObject *staged; /* the ids given to stage() and not committed yet, or NULL */
    int64_t *slot;
} table_t;

static void forget_staged(table_t *self)
{
    Py_CLEAR(self->staged);
    plb_free(self->slot);
    self->slot = NULL;
}

static int table_init(table_t *self, plb_py_call_t *c)
{
    int64_t data_bytes;
    bool has_local = true;
    PLB_PASS(PLB_READ(c, PLB_ONE(&data_bytes), PLB_ONE(&has_local)));
    PLB_PASS(plb_py_refuse(data_bytes < 0, PyExc_ValueError, "data_bytes: expected 0 or more"));
    plb_table_init(&self->core, data_bytes, has_local);
    return 0;
}

static void table_fini(table_t *self)
{
    forget_staged(self);
    plb_table_free(&self->core);
}

static int is_staged(const table_t *self)
{
    PLB_PASS(plb_py_refuse(self->staged != NULL, PyExc_RuntimeError,
                           "ids are staged: commit or abandon them"));
    return 0;
}

/* View the ids that a call was given. */
static PyArrayObject *ids_of(const table_t *self, plb_py_call_t *c, PyObject *ids)
{
    if (is_staged(self)) {
        return NULL;
    }
    return plb_py_hold(&c->held, ids, NPY_INT64, 1);
}

PLB_PY_DEF(
    table, stage, "!ids",
    "Reserve entries for ids; commit() then writes these entries.  Returns None.  If an id is\n"
    "given twice, nothing is staged, and the first two indices of that id are returned.")
{
    PyArrayObject *a = ids_of(self, c, c->arg);
    PLB_PASS(a == NULL);
    const npy_intp n = PyArray_SIZE(a);
    int64_t twice[2] = {0, 0};
    if ((self->slot = plb_malloc((size_t)n, sizeof *self->slot)) == NULL) {
        plb_py_no_memory();
        return -1;
    }
    self->staged = (PyArrayObject *)Py_NewRef((PyObject *)a);
    const int ret = PLB_PY_UNLOCKED(
        c, plb_table_stage(&self->core, PyArray_DATA(a), n, self->slot, twice, &c->err));
    if (ret != PLB_OK) {
        forget_staged(self);
    }
    return ret == PLB_ERR_KEY
               ? plb_py_answer(c, Py_BuildValue("LL", (long long)twice[0], (long long)twice[1]))
               : ret;
}

/* View n entries of user data; None gives NULL. */
static int data_of(const table_t *self, PyObject *object, int64_t n, char **data)
{
    *data = NULL;
    if (object == Py_None) {
        return 0;
    }
    PLB_PASS(plb_py_refuse(!is_plain(object) || PyArray_NBYTES((PyArrayObject *)object) !=
                                                    n * self->core.data_bytes,
                           PyExc_ValueError, "data: expected a contiguous array of %zd bytes",
                           (Py_ssize_t)(n * self->core.data_bytes)));
    *data = PyArray_DATA((PyArrayObject *)object);
    return 0;
}

PLB_PY_DEF(table, commit, "owner local:? data",
           "Write the entries of the ids that were given to stage().  data None: old entries\n"
           "keep their user data, and new ones get zeros.")
{
    const int32_t *owner;
    const int64_t *local;
    int64_t n = -1, n_local = -1;
    PyObject *data;
    char *bytes;
    PLB_PASS(PLB_READ(c, PLB_MANY(&owner, &n), PLB_MANY(&local, &n_local), PLB_ONE(&data)));
    PLB_PASS(plb_py_refuse(self->staged == NULL || n != PyArray_SIZE(self->staged) ||
                               n_local != (self->core.has_local ? n : -1),
                           PyExc_ValueError, "owner, local: expected one for each staged id"));
    PLB_PASS(data_of(self, data, n, &bytes));
    PLB_PASS(PLB_PY_UNLOCKED(
        c, (plb_table_commit(&self->core, self->slot, n, owner, local, bytes), PLB_OK)));
    forget_staged(self);
    return PLB_OK;
}

PLB_PY_DEF(table, abandon, "", "Forget the ids that were given to stage(), if there are any.")
{
    if (self->staged != NULL) {
        plb_table_unstage(&self->core, PyArray_DATA(self->staged), PyArray_SIZE(self->staged));
        forget_staged(self);
    }
    return PLB_OK;
}

PLB_PY_DEF(table, find, "ids data",
           "Return (owner, local, missing): owner and local id of each id (-1: unknown; None:\n"
           "not wanted), and the index of the first unknown id (-1: none).  data: gets the user "
           "data; or None.")
{
    PyObject *object, *data;
    PyArrayObject *ids;
    int32_t *owner;
    int64_t *local = NULL, missing = -1;
    char *bytes;
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&data)));
    PLB_PASS((ids = ids_of(self, c, object)) == NULL);
    PLB_PASS(data_of(self, data, PyArray_SIZE(ids), &bytes));
    PLB_PASS((owner = plb_py_new(c, NPY_INT32, PyArray_SIZE(ids))) == NULL);
    PLB_PASS(self->core.has_local &&
             (local = plb_py_new(c, NPY_INT64, PyArray_SIZE(ids))) == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(c, (plb_table_find(&self->core, PyArray_DATA(ids), PyArray_SIZE(ids),
                                                owner, local, bytes, &missing),
                                 PLB_OK)));
    return plb_py_answer(
        c, Py_BuildValue("NNL", plb_py_out(c, owner), plb_py_out(c, local), (long long)missing));
}

PLB_PY_DEF(table, remove, "!ids", "Remove ids.  Returns how many of them were in the table.")
{
    int64_t n;
    PyArrayObject *a = ids_of(self, c, c->arg);
    PLB_PASS(a == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, (n = plb_table_remove(&self->core, PyArray_DATA(a), PyArray_SIZE(a)), PLB_OK)));
    return plb_py_answer(c, PyLong_FromLongLong(n));
}

PLB_PY_DEF(table, ids, "", "Return all ids, in arbitrary order.")
{
    int64_t *ids = plb_py_new(c, NPY_INT64, self->core.n);
    PLB_PASS(is_staged(self) || ids == NULL);
    plb_table_ids(&self->core, ids);
    return plb_py_answer(c, plb_py_out(c, ids));
}

static const plb_py_def_t *const table_methods[] = {
    &table_stage, &table_commit, &table_abandon, &table_find, &table_remove, &table_ids, NULL};

static Py_ssize_t table_length(PyObject *object)
{
    return ((table_t *)object)->core.n;
}

#define TABLE(X)                                                                                  \
    X(table, nbytes, PyLong_FromLongLong(plb_table_bytes(&self->core)),                           \
      "Bytes of memory that the table uses.")
PLB_PY_PROPERTIES(table, TABLE)

PLB_PY_TYPE(table, "pylb._core.Table", "data_bytes has_local=True",
            "A rank's entries of a directory: id, owner, local id (if wanted), and data_bytes of\n"
            "user data.",
            {Py_tp_getset, table_getset}, {Py_sq_length, table_length}, )

static int constants(PyObject *module)
{
#define X(name, unit, help) #name,
    static const char *const names[] = {PLB_SHARE_FIGURES(X)};
#undef X
    return plb_py_add_value(module, "SHARE_FIGURES",
                            plb_py_names(names, sizeof names / sizeof *names));
}

const plb_py_room_t plb_py_comm = {methods, {&table_spec}, constants};
