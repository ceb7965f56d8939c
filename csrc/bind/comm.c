/* Room comm, without MPI: routes of items, reordering, a rank's part of a directory. */
#include "bind/rooms.h"

PLB_PY_FN(route,
          "route(destination, n_ranks, /)\n--\n\n"
          "Return the route (rank, start, order) of items to the ranks destination[n]: items\n"
          "start[i] ... start[i+1]-1 of `order` go to rank[i]. order is None if the items are\n"
          "sorted already.")
{
    const int32_t *destination;
    int64_t n = -1;
    int32_t n_ranks;
    plb_route_t found;
    PLB_PY_TRY(plb_py_parse(c, "destination:i4 n_ranks:i", &destination, &n, &n_ranks));
    PLB_PY_RAISE_IF(n_ranks < 1, PyExc_ValueError,
                    "destination, n_ranks: expected an array, 1 or more");
    PLB_PY_RUN(c, plb_route_init(&found, destination, n, n_ranks, &c->err));
    return Py_BuildValue("NNN", plb_py_take(found.rank, found.n_peers, NPY_INT32),
                         plb_py_take(found.start, found.n_peers + 1, NPY_INT64),
                         plb_py_take(found.order, n, NPY_INT32));
}

/* ---- items in another order ----------------------------------------------------------------- */

typedef struct reorder {
    const char *from;
    char *to;
    const int32_t *index;
    const int64_t *offset; /* [items + 1] first row of each item; NULL: each item is one row */
    int64_t n, items, rows, row_bytes, packed_bytes;
    bool gather;
} reorder_t;

static int is_plain(PyObject *object)
{
    return PyArray_Check(object) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)object) &&
           !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)object));
}

/* Return the number of rows of the items index[n]; -1 if an index is not 0 ... items-1. */
static int64_t rows_of(const reorder_t *r)
{
    int64_t rows = r->offset == NULL ? r->n : 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->index[i] < 0 || r->index[i] >= r->items) {
            return -1;
        }
        if (r->offset != NULL) {
            rows += r->offset[r->index[i] + 1] - r->offset[r->index[i]];
        }
    }
    return rows;
}

static int copy(const reorder_t *r)
{
    if ((r->offset != NULL && !plb_py_rises(r->offset, r->items, r->rows)) ||
        rows_of(r) * r->row_bytes != r->packed_bytes) {
        return PLB_ERR_VALUE;
    }
    if (r->offset == NULL) {
        (r->gather ? plb_gather : plb_scatter)(r->from, r->index, r->n, r->row_bytes, r->to);
    } else {
        (r->gather ? plb_gather_sized : plb_scatter_sized)(r->from, r->offset, r->index, r->n,
                                                           r->row_bytes, r->to);
    }
    return PLB_OK;
}

/* gather() and scatter(): copy rows in the order of index[n]; with offsets, whole items. */
static PyObject *reorder(plb_py_call_t *c, bool gather)
{
    PyObject *from, *to;
    reorder_t r = {.n = -1, .gather = gather};
    int64_t items = -1;
    PLB_PY_TRY(plb_py_parse(c, "items:O index:i4 out:O row_bytes:l offset:i8?", &from, &r.index,
                            &r.n, &to, &r.row_bytes, &r.offset, &items));
    PyArrayObject *indexed = (PyArrayObject *)(gather ? from : to);
    if (is_plain(from) && is_plain(to) && r.row_bytes > 0 &&
        PyArray_ISWRITEABLE((PyArrayObject *)to) && PyArray_NBYTES(indexed) % r.row_bytes == 0) {
        r.rows = PyArray_NBYTES(indexed) / r.row_bytes;
        r.items = r.offset != NULL ? items - 1 : r.rows;
        r.packed_bytes = PyArray_NBYTES((PyArrayObject *)(gather ? to : from));
        r.from = PyArray_BYTES((PyArrayObject *)from);
        r.to = PyArray_BYTES((PyArrayObject *)to);
        if (PLB_PY_UNLOCKED(c, copy(&r)) == PLB_OK) {
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_ValueError,
                        "expected contiguous arrays with rows of row_bytes bytes, valid indices, "
                        "and an output with as many rows as are copied");
}

PLB_PY_FN(gather,
          "gather(items, index, out, row_bytes, offset, /)\n--\n\n"
          "Copy items to out[i] = items[index[i]].  With offsets, item k has the rows offset[k]\n"
          "... offset[k+1]-1.")
{
    return reorder(c, true);
}

PLB_PY_FN(scatter, "scatter(packed, index, out, row_bytes, offset, /)\n--\n\n"
                   "Copy items to out[index[i]] = packed[i]: the reverse of gather().")
{
    return reorder(c, false);
}

static int homes(const int64_t *id, int64_t n, int32_t n_ranks, int32_t *rank)
{
    for (int64_t i = 0; i < n; i++) {
        rank[i] = plb_home(id[i], n_ranks);
    }
    return PLB_OK;
}

PLB_PY_FN(home, "home(ids, n_ranks, /)\n--\n\n"
                "Return the rank that keeps the directory entry of each id, int32.")
{
    const int64_t *id;
    int64_t n = -1;
    int32_t n_ranks, *rank;
    PLB_PY_TRY(plb_py_parse(c, "ids:i8 n_ranks:i", &id, &n, &n_ranks));
    PLB_PY_GET(rank = plb_py_new(c, NPY_INT32, n));
    PLB_PY_RUN(c, homes(id, n, n_ranks, rank));
    return plb_py_out(c, rank);
}

enum { MOST_COLUMNS = 3 };

/* Return the rows start ... end - 1 of the route's order as an array; their entries come from
 * `columns`. */
static PyObject *rows_of_rank(const plb_route_t *route, int32_t peer,
                              const int64_t *const column[], Py_ssize_t n_columns)
{
    const int64_t start = route->start[peer], end = route->start[peer + 1];
    npy_intp shape[2] = {(npy_intp)(end - start), n_columns};
    PyObject *out = PyArray_SimpleNew(2, shape, NPY_INT64);
    int64_t *row = out ? PyArray_DATA((PyArrayObject *)out) : NULL;
    for (int64_t i = start; row != NULL && i < end; i++) {
        const int64_t at = route->order ? route->order[i] : i;
        for (Py_ssize_t k = 0; k < n_columns; k++) {
            *row++ = column[k][at];
        }
    }
    return out;
}

PLB_PY_FN(rows_to,
          "rows_to(rank, n_ranks, columns, /)\n--\n\n"
          "Return the rows for each rank: a dict from a rank to an (m, k) int64 array.  Row i\n"
          "has the i-th entries of the k columns (up to three) and goes to rank[i].")
{
    const int32_t *rank;
    int64_t n = -1;
    int32_t n_ranks;
    PyObject *columns;
    const int64_t *column[MOST_COLUMNS] = {NULL};
    plb_route_t route;
    PLB_PY_TRY(plb_py_parse(c, "rank:i4 n_ranks:i columns:T", &rank, &n, &n_ranks, &columns));
    const Py_ssize_t k = PyTuple_GET_SIZE(columns);
    PLB_PY_RAISE_IF(k > MOST_COLUMNS, PyExc_ValueError, "columns: expected at most %d",
                    MOST_COLUMNS);
    for (Py_ssize_t i = 0; i < k; i++) {
        PLB_PY_TRY(plb_py_view(&c->held, PyTuple_GET_ITEM(columns, i), "columns", NPY_INT64, n,
                               &column[i]));
    }
    if (plb_route_init(&route, rank, n, n_ranks, &c->err) != PLB_OK) {
        return plb_py_raise(c->err.code, &c->err);
    }
    PyObject *out = PyDict_New();
    for (int32_t p = 0; p < route.n_peers && out != NULL; p++) {
        PyObject *key = PyLong_FromLong(route.rank[p]);
        PyObject *rows = key ? rows_of_rank(&route, p, column, k) : NULL;
        if (rows == NULL || PyDict_SetItem(out, key, rows) != 0) {
            Py_CLEAR(out);
        }
        Py_XDECREF(key);
        Py_XDECREF(rows);
    }
    plb_route_free(&route);
    return out;
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, route, rows_to, gather, scatter, home);

/* ---- a rank's part of a directory ----------------------------------------------------------- */

typedef struct table {
    PyObject_HEAD plb_table_t core;
    PyArrayObject *staged; /* the ids of the call of stage() that waits for commit(), or NULL */
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
    PLB_PY_PASS(plb_py_parse(c, "data_bytes:l", &data_bytes));
    PLB_PY_REFUSE_IF(data_bytes < 0, PyExc_ValueError, "data_bytes: expected 0 or more");
    plb_table_init(&self->core, data_bytes, true);
    return 0;
}

static void table_free(table_t *self)
{
    forget_staged(self);
    plb_table_free(&self->core);
}

/* Return the ids of a call; NULL with an exception, e.g. if ids are staged: then the call is not
 * allowed. */
static PyArrayObject *ids_of(const table_t *self, plb_py_call_t *c, PyObject *ids)
{
    if (self->staged != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "ids are staged: commit or abandon them");
        return NULL;
    }
    return plb_py_hold(&c->held, ids, NPY_INT64, 1);
}

PLB_PY_METHOD1(
    table, stage,
    "stage($self, ids, /)\n--\n\n"
    "Make room for ids, whose entries commit() then writes.  Returns None.  If an id is\n"
    "given twice, nothing is staged, and the first two indices of that id are returned.")
{
    PyArrayObject *a = ids_of(self, c, arg);
    PLB_PY_GET(a);
    const npy_intp n = PyArray_SIZE(a);
    int64_t twice[2] = {0, 0};
    if ((self->slot = plb_malloc((size_t)n, sizeof *self->slot)) == NULL) {
        return plb_py_no_memory();
    }
    const int ret = PLB_PY_UNLOCKED(
        c, plb_table_stage(&self->core, PyArray_DATA(a), n, self->slot, twice, &c->err));
    if (ret == PLB_OK) {
        self->staged = (PyArrayObject *)Py_NewRef((PyObject *)a);
        Py_RETURN_NONE;
    }
    forget_staged(self);
    return ret == PLB_ERR_KEY ? Py_BuildValue("LL", (long long)twice[0], (long long)twice[1])
                              : plb_py_fail(c);
}

/* Set *data to the memory of n entries of user data; None gives NULL. -1 with an exception. */
static int data_of(const table_t *self, PyObject *object, int64_t n, char **data)
{
    *data = NULL;
    if (object == Py_None) {
        return 0;
    }
    PLB_PY_REFUSE_IF(!is_plain(object) ||
                         PyArray_NBYTES((PyArrayObject *)object) != n * self->core.data_bytes,
                     PyExc_ValueError, "data: expected a contiguous array of %zd bytes",
                     (Py_ssize_t)(n * self->core.data_bytes));
    *data = PyArray_DATA((PyArrayObject *)object);
    return 0;
}

static int commit(table_t *self, int64_t n, const int32_t *owner, const int64_t *local,
                  const char *bytes)
{
    plb_table_commit(&self->core, self->slot, n, owner, local, bytes);
    return PLB_OK;
}

PLB_PY_METHOD(table, commit,
              "commit($self, owner, local, data, /)\n--\n\n"
              "Write the entries of the ids that were given to stage().  data None: old entries\n"
              "keep their user data.")
{
    const int32_t *owner;
    const int64_t *local;
    int64_t n = -1, n_local = -1;
    PyObject *data;
    char *bytes;
    PLB_PY_TRY(plb_py_parse(c, "owner:i4 local:i8 data:O", &owner, &n, &local, &n_local, &data));
    PLB_PY_RAISE_IF(self->staged == NULL || n != PyArray_SIZE(self->staged) || n_local != n,
                    PyExc_ValueError, "owner, local: expected one for each staged id");
    PLB_PY_TRY(data_of(self, data, n, &bytes));
    (void)PLB_PY_UNLOCKED(c, commit(self, n, owner, local, bytes));
    forget_staged(self);
    Py_RETURN_NONE;
}

PLB_PY_METHOD0(table, abandon,
               "abandon($self, /)\n--\n\n"
               "Forget the ids that were given to stage(), if there are any.")
{
    if (self->staged != NULL) {
        plb_table_unstage(&self->core, PyArray_DATA(self->staged), PyArray_SIZE(self->staged));
        forget_staged(self);
    }
    Py_RETURN_NONE;
}

static int find(table_t *self, PyArrayObject *ids, int32_t *owner, int64_t *local, char *bytes,
                int64_t *missing)
{
    plb_table_find(&self->core, PyArray_DATA(ids), PyArray_SIZE(ids), owner, local, bytes,
                   missing);
    return PLB_OK;
}

PLB_PY_METHOD(table, find,
              "find($self, ids, data, /)\n--\n\n"
              "Return (owner, local, missing): owner and local id of each id, both -1 for an\n"
              "unknown id; and the index of the first unknown id, or -1 if all are known.\n"
              "data: an array that is filled with the user data, or None.")
{
    PyObject *object, *data;
    PyArrayObject *ids;
    int32_t *owner;
    int64_t *local, missing = -1;
    char *bytes;
    PLB_PY_TRY(plb_py_parse(c, "ids:O data:O", &object, &data));
    PLB_PY_GET(ids = ids_of(self, c, object));
    PLB_PY_TRY(data_of(self, data, PyArray_SIZE(ids), &bytes));
    PLB_PY_GET(owner = plb_py_new(c, NPY_INT32, PyArray_SIZE(ids)));
    PLB_PY_GET(local = plb_py_new(c, NPY_INT64, PyArray_SIZE(ids)));
    (void)PLB_PY_UNLOCKED(c, find(self, ids, owner, local, bytes, &missing));
    return Py_BuildValue("NNL", plb_py_out(c, owner), plb_py_out(c, local), (long long)missing);
}

static int take_out(table_t *self, PyArrayObject *ids, int64_t *n)
{
    *n = plb_table_remove(&self->core, PyArray_DATA(ids), PyArray_SIZE(ids));
    return PLB_OK;
}

PLB_PY_METHOD1(table, remove,
               "remove($self, ids, /)\n--\n\n"
               "Remove ids.  Returns how many of them were in the table.")
{
    int64_t n = 0;
    PyArrayObject *ids = ids_of(self, c, arg);
    return ids == NULL || PLB_PY_UNLOCKED(c, take_out(self, ids, &n)) ? NULL
                                                                      : PyLong_FromLongLong(n);
}

PLB_PY_METHOD0(table, ids,
               "ids($self, /)\n--\n\n"
               "Return all ids, in arbitrary order.")
{
    int64_t *ids = NULL;
    if (self->staged != NULL) {
        ids_of(self, c, Py_None); /* raises an exception, because ids are staged */
    } else if ((ids = plb_py_new(c, NPY_INT64, self->core.n)) != NULL) {
        plb_table_ids(&self->core, ids);
    }
    return ids == NULL ? NULL : plb_py_out(c, ids);
}

static PyMethodDef table_methods[] =
    PLB_PY_METHODS(table, stage, commit, abandon, find, remove, ids);

static Py_ssize_t table_length(PyObject *object)
{
    return ((table_t *)object)->core.n;
}

#define TABLE(X)                                                                                  \
    X(table, nbytes, PyLong_FromLongLong(plb_table_bytes(&self->core)),                           \
      "Bytes of memory that the table uses.")
PLB_PY_PROPERTIES(table, TABLE)

PLB_PY_TYPE(table, "pylb._core.Table",
            "Table(data_bytes)\n--\n\n"
            "A rank's entries of a directory: id, owner, local id, and data_bytes of user data.",
            {Py_tp_getset, table_getset}, {Py_sq_length, table_length}, )

/* ---- where objects are, as far as a rank knows -----------------------------------------------
 */

typedef struct owners {
    PyObject_HEAD plb_table_t core;
} owners_t;

static int owners_init(owners_t *self, plb_py_call_t *c)
{
    plb_table_init(&self->core, 0, false);
    return plb_py_parse(c, "");
}

static void owners_free(owners_t *self)
{
    plb_table_free(&self->core);
}

static int put(owners_t *self, const int64_t *key, int64_t n, const int64_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *slot = NULL, twice[2];
    int32_t *owner = NULL;
    PLB_NEW_EACH(n, slot, owner);
    PLB_TRY(plb_table_stage(&self->core, key, n, slot, twice, err));
    for (int64_t i = 0; i < n; i++) {
        owner[i] = (int32_t)rank[i];
    }
    plb_table_commit(&self->core, slot, n, owner, NULL, NULL);
out:
    PLB_FREE(slot, owner);
    return ret;
}

PLB_PY_METHOD(owners, put,
              "put($self, keys, ranks, /)\n--\n\n"
              "Store the rank of each object, or change it.  No key may be repeated.")
{
    const int64_t *key, *rank;
    int64_t n = -1;
    PLB_PY_TRY(plb_py_parse(c, "keys:i8 ranks:i8", &key, &n, &rank, &n));
    return PLB_PY_NONE(c, PLB_PY_UNLOCKED(c, put(self, key, n, rank, &c->err)));
}

static int owners_of(const owners_t *self, const int64_t *key, int64_t n, int32_t *rank)
{
    int64_t missing;
    plb_table_find(&self->core, key, n, rank, NULL, NULL, &missing);
    return PLB_OK;
}

PLB_PY_METHOD(owners, find, "find($self, keys, /)\n--\n\nReturn the rank of each object, or -1.")
{
    const int64_t *key;
    int64_t n = -1;
    int32_t *rank;
    PLB_PY_TRY(plb_py_parse(c, "keys:i8", &key, &n));
    PLB_PY_GET(rank = plb_py_new(c, NPY_INT32, n));
    (void)PLB_PY_UNLOCKED(c, owners_of(self, key, n, rank));
    return plb_py_out(c, rank);
}

PLB_PY_METHOD(owners, remove, "remove($self, keys, /)\n--\n\nForget objects.")
{
    const int64_t *key;
    int64_t n = -1;
    PLB_PY_TRY(plb_py_parse(c, "keys:i8", &key, &n));
    plb_table_remove(&self->core, key, n);
    Py_RETURN_NONE;
}

PLB_PY_METHOD0(owners, keys, "keys($self, /)\n--\n\nReturn all keys, in arbitrary order.")
{
    int64_t *keys = plb_py_new(c, NPY_INT64, self->core.n);
    PLB_PY_GET(keys);
    plb_table_ids(&self->core, keys);
    return plb_py_out(c, keys);
}

static PyMethodDef owners_methods[] = PLB_PY_METHODS(owners, put, find, remove, keys);

static Py_ssize_t owners_length(PyObject *object)
{
    return ((owners_t *)object)->core.n;
}

#define OWNERS(X)                                                                                 \
    X(owners, nbytes, PyLong_FromLongLong(plb_table_bytes(&self->core)),                          \
      "Bytes of memory that the table uses.")
PLB_PY_PROPERTIES(owners, OWNERS)

PLB_PY_TYPE(owners, "pylb._core.Owners", "Owners()\n--\n\nThe ranks of objects, by key.",
            {Py_tp_getset, owners_getset}, {Py_sq_length, owners_length}, )

const plb_py_room_t plb_py_comm = {methods, {&table_spec, &owners_spec}, NULL};
