/* Python binding of the part of csrc/comm without MPI. */
#include "bind/convert.h"
#include "bind/order.h"
#include "bind/rooms.h"
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
    (gather ? plb_py_order_gather : plb_py_order_scatter)(order, from, row_bytes, to);
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
    int32_t n_ranks, *rank;
    PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n), PLB_ONE(&n_ranks)));
    PLB_PASS((rank = plb_py_new(c, NPY_INT32, n)) == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(c, (homes(id, n, n_ranks, rank), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, rank));
}

enum { MOST_COLUMNS = 3 };

/* Return the rows for the route's peer number `peer`: an (m, k) array of m items, k columns. */
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

PLB_PY_DEF(
    fn, rows_to, "rank n_ranks columns:T",
    "Return a dict from each rank that gets rows to its rows, an (m, k) int64 array.  Item\n"
    "i becomes a row for rank[i]: its entries in the k columns (up to three).")
{
    const int32_t *rank;
    int64_t n = -1;
    int32_t n_ranks;
    PyObject *columns;
    const int64_t *column[MOST_COLUMNS] = {NULL};
    plb_route_t route;
    PLB_PASS(PLB_READ(c, PLB_MANY(&rank, &n), PLB_ONE(&n_ranks), PLB_ONE(&columns)));
    const Py_ssize_t k = PyTuple_GET_SIZE(columns);
    PLB_PASS(plb_py_refuse(k > MOST_COLUMNS, PyExc_ValueError, "columns: expected at most %d",
                           MOST_COLUMNS));
    for (Py_ssize_t i = 0; i < k; i++) {
        PLB_PASS(plb_py_view(&c->held, PyTuple_GET_ITEM(columns, i), "columns", NPY_INT64, n,
                             &column[i]));
    }
    PLB_PASS(plb_route_init(&route, rank, n, n_ranks, &c->err));
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
    return plb_py_answer(c, out);
}

PLB_PY_DEF(fn, share_plan, "work speed toll",
           "Decide which rank lends work to which rank: (from, to, work, seconds of the slowest).")
{
    const double *work, *speed;
    double toll;
    int64_t p = -1;
    int32_t n = 0;
    PLB_PASS(PLB_READ(c, PLB_MANY(&work, &p), PLB_MANY(&speed, &p), PLB_ONE(&toll)));
    PLB_PASS(plb_py_refuse(p < 1 || p > INT32_MAX, PyExc_ValueError, "work: expected 1 or more"));
    plb_share_rank_t *rank = plb_py_memory(c, p, sizeof *rank);
    plb_share_flow_t *flow = plb_py_memory(c, p, sizeof *flow);
    PLB_PASS(rank == NULL || flow == NULL);
    for (int64_t r = 0; r < p; r++) {
        PLB_PASS(plb_py_refuse(!(work[r] >= 0.0 && speed[r] > 0.0), PyExc_ValueError,
                               "work, speed: expected positive numbers"));
        rank[r] = (plb_share_rank_t){work[r], speed[r]};
    }
    const double time = plb_share_plan(rank, (int32_t)p, toll, flow, &n);
    int32_t *from = plb_py_new(c, NPY_INT32, n), *to = plb_py_new(c, NPY_INT32, n);
    double *amount = plb_py_new(c, NPY_FLOAT64, n);
    PLB_PASS(from == NULL || to == NULL || amount == NULL);
    for (int32_t k = 0; k < n; k++) {
        from[k] = flow[k].from;
        to[k] = flow[k].to;
        amount[k] = flow[k].work;
    }
    return plb_py_answer(c, Py_BuildValue("NNNd", plb_py_out(c, from), plb_py_out(c, to),
                                          plb_py_out(c, amount), time));
}

static const plb_py_def_t *const methods[] = {&fn_route, &fn_rows_to,    &fn_gather, &fn_scatter,
                                              &fn_home,  &fn_share_plan, NULL};

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
    PLB_PASS(PLB_READ(c, PLB_ONE(&data_bytes)));
    PLB_PASS(plb_py_refuse(data_bytes < 0, PyExc_ValueError, "data_bytes: expected 0 or more"));
    plb_table_init(&self->core, data_bytes, true);
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

PLB_PY_DEF(table, commit, "owner local data",
           "Write the entries of the ids that were given to stage().  data None: old entries\n"
           "keep their user data, and new ones get zeros.")
{
    const int32_t *owner;
    const int64_t *local;
    int64_t n = -1, n_local = -1;
    PyObject *data;
    char *bytes;
    PLB_PASS(PLB_READ(c, PLB_MANY(&owner, &n), PLB_MANY(&local, &n_local), PLB_ONE(&data)));
    PLB_PASS(plb_py_refuse(self->staged == NULL || n != PyArray_SIZE(self->staged) || n_local != n,
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
           "Return (owner, local, missing): owner and local id of each id (-1: unknown), and\n"
           "the index of the first unknown id (-1: none).  data: gets the user data; or None.")
{
    PyObject *object, *data;
    PyArrayObject *ids;
    int32_t *owner;
    int64_t *local, missing = -1;
    char *bytes;
    PLB_PASS(PLB_READ(c, PLB_ONE(&object), PLB_ONE(&data)));
    PLB_PASS((ids = ids_of(self, c, object)) == NULL);
    PLB_PASS(data_of(self, data, PyArray_SIZE(ids), &bytes));
    PLB_PASS((owner = plb_py_new(c, NPY_INT32, PyArray_SIZE(ids))) == NULL);
    PLB_PASS((local = plb_py_new(c, NPY_INT64, PyArray_SIZE(ids))) == NULL);
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

static PyObject *all_ids(const table_t *self, plb_py_call_t *c)
{
    int64_t *ids = plb_py_new(c, NPY_INT64, self->core.n);
    if (ids == NULL) {
        return NULL;
    }
    plb_table_ids(&self->core, ids);
    return plb_py_out(c, ids);
}

PLB_PY_DEF(table, ids, "", "Return all ids, in arbitrary order.")
{
    PLB_PASS(is_staged(self));
    return plb_py_answer(c, all_ids(self, c));
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

PLB_PY_TYPE(table, "pylb._core.Table", "data_bytes",
            "A rank's entries of a directory: id, owner, local id, and data_bytes of user data.",
            {Py_tp_getset, table_getset}, {Py_sq_length, table_length}, )

/* ---- where objects are, as far as a rank knows ---------------------------------------------- */

typedef table_t owners_t; /* its ids are keys of objects; `staged` and `slot` are not used */

static int owners_init(owners_t *self, plb_py_call_t *c)
{
    plb_table_init(&self->core, 0, false);
    return plb_py_read(c, &(const plb_py_arg_t){0});
}

static void owners_fini(owners_t *self)
{
    table_fini(self);
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

PLB_PY_DEF(owners, put, "keys ranks",
           "Store the rank of each object, or change it.  No key may be repeated.")
{
    const int64_t *key, *rank;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n), PLB_MANY(&rank, &n)));
    return PLB_PY_UNLOCKED(c, put(self, key, n, rank, &c->err));
}

PLB_PY_DEF(owners, find, "keys", "Return the rank of each object, or -1.")
{
    const int64_t *key;
    int64_t n = -1, missing;
    int32_t *rank;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n)));
    PLB_PASS((rank = plb_py_new(c, NPY_INT32, n)) == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, (plb_table_find(&self->core, key, n, rank, NULL, NULL, &missing), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, rank));
}

PLB_PY_DEF(owners, remove, "keys", "Forget objects.")
{
    const int64_t *key;
    int64_t n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n)));
    plb_table_remove(&self->core, key, n);
    return PLB_OK;
}

PLB_PY_DEF(owners, keys, "", "Return all keys, in arbitrary order.")
{
    return plb_py_answer(c, all_ids(self, c));
}

static const plb_py_def_t *const owners_methods[] = {&owners_put, &owners_find, &owners_remove,
                                                     &owners_keys, NULL};

PLB_PY_TYPE(owners, "pylb._core.Owners", "", "The ranks of objects, by key.",
            {Py_tp_getset, table_getset}, {Py_sq_length, table_length}, )

static int constants(PyObject *module)
{
#define X(name, unit, help) #name,
    static const char *const names[] = {PLB_SHARE_FIGURES(X)};
#undef X
    return plb_py_add_value(module, "SHARE_FIGURES",
                            plb_py_names(names, sizeof names / sizeof *names));
}

const plb_py_room_t plb_py_comm = {methods, {&table_spec, &owners_spec}, constants};
