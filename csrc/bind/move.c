/* Room move: where items go, items in another order, a rank's part of a directory. */
#include "bind/views.h"

PyDoc_STRVAR(
    route_doc,
    "route(destination, n_ranks, /)\n--\n\n"
    "(rank, start, order) of items that go where destination[n] says: items start[i] ...\n"
    "start[i+1]-1 of the order to rank[i]; order None: as they are.");
static PyObject *route(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *destination, *out = NULL;
    int n_ranks;
    plb_py_held_t held = {0};
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "Oi", &destination, &n_ranks)) {
        return NULL;
    }
    PyArrayObject *a = plb_py_hold(&held, destination, NPY_INT32, 1);
    if (a == NULL || n_ranks < 1) {
        goto out;
    }
    const npy_intp n = PyArray_SIZE(a);
    plb_route_t found;
    int ret;
    Py_BEGIN_ALLOW_THREADS;
    ret = plb_route_init(&found, PyArray_DATA(a), n, n_ranks, &err);
    Py_END_ALLOW_THREADS;
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        goto out;
    }
    PyObject *rank = plb_py_take(found.rank, found.n_peers, NPY_INT32);
    PyObject *start = plb_py_take(found.start, found.n_peers + 1, NPY_INT64);
    PyObject *order =
        found.order != NULL ? plb_py_take(found.order, n, NPY_INT32) : Py_NewRef(Py_None);
    out = rank && start && order ? PyTuple_Pack(3, rank, start, order) : NULL;
    Py_XDECREF(rank);
    Py_XDECREF(start);
    Py_XDECREF(order);
out:
    plb_py_release(&held);
    if (out == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "destination, n_ranks: expected an array, 1 or more");
    }
    return out;
}

/* ---- items in another order ----------------------------------------------------------------- */

typedef void (*copy_fn)(const char *, const int32_t *, int64_t, int64_t, char *);
typedef void (*copy_sized_fn)(const char *, const int64_t *, const int32_t *, int64_t, int64_t,
                              char *);

static int is_plain(PyObject *object)
{
    return PyArray_Check(object) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)object) &&
           !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)object));
}

/* Rows of index[n] in all, each of them in 0 ... most-1; -1: not so. */
static int64_t rows_of(const int32_t *index, npy_intp n, int64_t most, const int64_t *offset)
{
    int64_t rows = offset == NULL ? n : 0;
    for (npy_intp i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= most) {
            return -1;
        }
        if (offset != NULL) {
            rows += offset[index[i] + 1] - offset[index[i]];
        }
    }
    return rows;
}

/* `indexed` has rows by index, or by item of offset; `packed` has those of index[n], in order. */
static PyObject *reorder(PyObject *args, int gather, copy_fn copy, copy_sized_fn copy_sized)
{
    PyObject *from, *index, *to, *offset;
    long long bytes;
    plb_py_held_t held = {0};
    if (!PyArg_ParseTuple(args, "OOOLO", &from, &index, &to, &bytes, &offset)) {
        return NULL;
    }
    PyArrayObject *i = plb_py_hold(&held, index, NPY_INT32, 1);
    PyArrayObject *o = i ? plb_py_hold(&held, offset, NPY_INT64, 1) : NULL;
    if (i == NULL || PyErr_Occurred()) {
        goto out;
    }
    PyArrayObject *indexed = (PyArrayObject *)(gather ? from : to);
    PyArrayObject *packed = (PyArrayObject *)(gather ? to : from);
    int ok = is_plain(from) && is_plain(to) && bytes > 0 &&
             PyArray_ISWRITEABLE((PyArrayObject *)to) && PyArray_NBYTES(indexed) % bytes == 0 &&
             (o == NULL || PyArray_SIZE(o) > 0);
    if (ok) {
        const int64_t *at = o ? PyArray_DATA(o) : NULL;
        const int64_t rows = PyArray_NBYTES(indexed) / bytes;
        const int64_t items = at ? PyArray_SIZE(o) - 1 : rows;
        const npy_intp n = PyArray_SIZE(i);
        const int32_t *k = PyArray_DATA(i);
        const char *source = PyArray_BYTES((PyArrayObject *)from);
        char *target = PyArray_BYTES((PyArrayObject *)to);
        Py_BEGIN_ALLOW_THREADS;
        for (int64_t j = 0; ok && at != NULL && j < items; j++) {
            ok = at[0] == 0 && at[j] <= at[j + 1];
        }
        ok = ok && (at == NULL || at[items] == rows) &&
             rows_of(k, n, items, at) * bytes == PyArray_NBYTES(packed);
        if (ok && at == NULL) {
            copy(source, k, n, bytes, target);
        } else if (ok) {
            copy_sized(source, at, k, n, bytes, target);
        }
        Py_END_ALLOW_THREADS;
    }
    if (!ok) {
        PyErr_SetString(PyExc_ValueError,
                        "expected contiguous arrays of rows of so many bytes, indices of them, "
                        "and an output of their rows");
    }
out:
    plb_py_release(&held);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(gather_doc,
             "gather(items, index, out, row_bytes, offset, /)\n--\n\n"
             "out[i] = items[index[i]]; with offsets item k has the rows offset[k] ...\n"
             "offset[k+1]-1.");
static PyObject *gather(PyObject *module, PyObject *args)
{
    (void)module;
    return reorder(args, 1, plb_gather, plb_gather_sized);
}

PyDoc_STRVAR(scatter_doc, "scatter(packed, index, out, row_bytes, offset, /)\n--\n\n"
                          "out[index[i]] = packed[i], the reverse of gather().");
static PyObject *scatter(PyObject *module, PyObject *args)
{
    (void)module;
    return reorder(args, 0, plb_scatter, plb_scatter_sized);
}

PyDoc_STRVAR(home_doc, "home(ids, n_ranks, /)\n--\n\n"
                       "The rank at which a directory keeps each id, int32.");
static PyObject *home(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *ids, *out = NULL;
    int n_ranks;
    plb_py_held_t held = {0};
    if (!PyArg_ParseTuple(args, "Oi", &ids, &n_ranks)) {
        return NULL;
    }
    PyArrayObject *a = plb_py_hold(&held, ids, NPY_INT64, 1);
    npy_intp n = a ? PyArray_SIZE(a) : 0;
    if (a != NULL && (out = PyArray_SimpleNew(1, &n, NPY_INT32)) != NULL) {
        const int64_t *id = PyArray_DATA(a);
        int32_t *rank = PyArray_DATA((PyArrayObject *)out);
        Py_BEGIN_ALLOW_THREADS;
        for (npy_intp i = 0; i < n; i++) {
            rank[i] = plb_home(id[i], n_ranks);
        }
        Py_END_ALLOW_THREADS;
    }
    plb_py_release(&held);
    return out;
}

/* ---- a rank's part of a directory ----------------------------------------------------------- */

typedef struct table_object {
    PyObject_HEAD plb_table_t core;
    PyObject *staged; /* the ids, while they are */
    int64_t *slot;
} table_object_t;

static void forget_staged(table_object_t *self)
{
    Py_CLEAR(self->staged);
    plb_free(self->slot);
    self->slot = NULL;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"data_bytes", NULL};
    long long data_bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L:Table", names, &data_bytes)) {
        return NULL;
    }
    if (data_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "data_bytes: expected 0 or more");
        return NULL;
    }
    table_object_t *self = (table_object_t *)type->tp_alloc(type, 0);
    if (self != NULL) {
        plb_table_init(&self->core, data_bytes);
    }
    return (PyObject *)self;
}

static void table_dealloc(PyObject *object)
{
    table_object_t *self = (table_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    forget_staged(self);
    plb_table_free(&self->core);
    type->tp_free(object);
    Py_DECREF(type);
}

/* A call that would move what is staged. */
static int is_staged(table_object_t *self)
{
    if (self->staged != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "ids are staged: commit or abandon them");
    }
    return self->staged != NULL;
}

PyDoc_STRVAR(stage_doc,
             "stage($self, ids, /)\n--\n\n"
             "Make room for ids: None, or the first two places of one that is doubled;\n"
             "then nothing is staged.");
static PyObject *table_stage(PyObject *object, PyObject *ids)
{
    table_object_t *self = (table_object_t *)object;
    plb_py_held_t held = {0};
    plb_err_t err;
    int64_t twice[2] = {0, 0};
    int ret = PLB_OK;
    PyArrayObject *a = is_staged(self) ? NULL : plb_py_hold(&held, ids, NPY_INT64, 1);
    if (a != NULL) {
        const npy_intp n = PyArray_SIZE(a);
        self->slot = plb_malloc((size_t)n, sizeof *self->slot);
        if (self->slot == NULL) {
            PyErr_NoMemory();
            goto out;
        }
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_table_stage(&self->core, PyArray_DATA(a), n, self->slot, twice, &err);
        Py_END_ALLOW_THREADS;
        if (ret == PLB_OK) {
            self->staged = Py_NewRef((PyObject *)a);
        } else {
            forget_staged(self);
            if (ret != PLB_ERR_KEY) {
                plb_py_raise(ret, &err);
            }
        }
    }
out:
    plb_py_release(&held);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (ret == PLB_ERR_KEY) {
        return Py_BuildValue("LL", (long long)twice[0], (long long)twice[1]);
    }
    Py_RETURN_NONE;
}

/* Contiguous memory of n entries of user data; None is NULL.  -1 with an exception. */
static int data_of(const table_object_t *self, PyObject *object, npy_intp n, char **data)
{
    *data = NULL;
    if (object == Py_None) {
        return 0;
    }
    if (!is_plain(object) ||
        PyArray_NBYTES((PyArrayObject *)object) != n * self->core.data_bytes) {
        PyErr_Format(PyExc_ValueError, "data: expected a contiguous array of %zd bytes",
                     (Py_ssize_t)(n * self->core.data_bytes));
        return -1;
    }
    *data = PyArray_DATA((PyArrayObject *)object);
    return 0;
}

PyDoc_STRVAR(commit_doc, "commit($self, owner, local, data, /)\n--\n\n"
                         "Write the entries of the ids that are staged; data None: as they were.");
static PyObject *table_commit(PyObject *object, PyObject *args)
{
    table_object_t *self = (table_object_t *)object;
    PyObject *owner, *local, *data;
    plb_py_held_t held = {0};
    if (!PyArg_ParseTuple(args, "OOO", &owner, &local, &data)) {
        return NULL;
    }
    const npy_intp n = self->staged ? PyArray_SIZE((PyArrayObject *)self->staged) : -1;
    PyArrayObject *a = plb_py_hold(&held, owner, NPY_INT32, 1);
    PyArrayObject *b = a ? plb_py_hold(&held, local, NPY_INT64, 1) : NULL;
    char *bytes = NULL;
    if (b == NULL || PyArray_SIZE(a) != n || PyArray_SIZE(b) != n) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "owner, local: expected one for each staged id");
        }
    } else if (data_of(self, data, n, &bytes) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        plb_table_commit(&self->core, self->slot, n, PyArray_DATA(a), PyArray_DATA(b), bytes);
        Py_END_ALLOW_THREADS;
        forget_staged(self);
    }
    plb_py_release(&held);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(abandon_doc, "abandon($self, /)\n--\n\nForget what is staged, if anything is.");
static PyObject *table_abandon(PyObject *object, PyObject *unused)
{
    (void)unused;
    table_object_t *self = (table_object_t *)object;
    if (self->staged != NULL) {
        PyArrayObject *a = (PyArrayObject *)self->staged;
        plb_table_unstage(&self->core, PyArray_DATA(a), PyArray_SIZE(a));
        forget_staged(self);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(find_doc, "find($self, ids, data, /)\n--\n\n"
                       "(owner, local, missing): -1 where there is none, and the place of the\n"
                       "first such id, or -1; `data`, an array or None, is filled.");
static PyObject *table_find(PyObject *object, PyObject *args)
{
    table_object_t *self = (table_object_t *)object;
    PyObject *ids, *data, *out = NULL;
    plb_py_held_t held = {0};
    if (!PyArg_ParseTuple(args, "OO", &ids, &data) || is_staged(self)) {
        return NULL;
    }
    PyArrayObject *a = plb_py_hold(&held, ids, NPY_INT64, 1);
    npy_intp n = a ? PyArray_SIZE(a) : 0;
    char *bytes = NULL;
    if (a != NULL && data_of(self, data, n, &bytes) == 0) {
        PyObject *owner = PyArray_SimpleNew(1, &n, NPY_INT32);
        PyObject *local = owner ? PyArray_SimpleNew(1, &n, NPY_INT64) : NULL;
        int64_t missing = -1;
        if (local != NULL) {
            Py_BEGIN_ALLOW_THREADS;
            plb_table_find(&self->core, PyArray_DATA(a), n, PyArray_DATA((PyArrayObject *)owner),
                           PyArray_DATA((PyArrayObject *)local), bytes, &missing);
            Py_END_ALLOW_THREADS;
            out = Py_BuildValue("OOL", owner, local, (long long)missing);
        }
        Py_XDECREF(owner);
        Py_XDECREF(local);
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(remove_doc, "remove($self, ids, /)\n--\n\n"
                         "Take out ids; the number of those that were there.");
static PyObject *table_remove(PyObject *object, PyObject *ids)
{
    table_object_t *self = (table_object_t *)object;
    plb_py_held_t held = {0};
    long long n = 0;
    PyArrayObject *a = is_staged(self) ? NULL : plb_py_hold(&held, ids, NPY_INT64, 1);
    if (a != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        n = plb_table_remove(&self->core, PyArray_DATA(a), PyArray_SIZE(a));
        Py_END_ALLOW_THREADS;
    }
    plb_py_release(&held);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(n);
}

PyDoc_STRVAR(ids_doc, "ids($self, /)\n--\n\nAll ids, in no order that means anything.");
static PyObject *table_ids(PyObject *object, PyObject *unused)
{
    (void)unused;
    table_object_t *self = (table_object_t *)object;
    npy_intp n = is_staged(self) ? -1 : self->core.n;
    PyObject *out = n < 0 ? NULL : PyArray_SimpleNew(1, &n, NPY_INT64);
    if (out != NULL) {
        plb_table_ids(&self->core, PyArray_DATA((PyArrayObject *)out));
    }
    return out;
}

static Py_ssize_t table_length(PyObject *object)
{
    return ((table_object_t *)object)->core.n;
}

static PyObject *table_nbytes(PyObject *object, void *unused)
{
    (void)unused;
    const plb_table_t *t = &((table_object_t *)object)->core;
    return PyLong_FromLongLong(t->n_slots * (long long)sizeof *t->slot +
                               t->room * (t->data_bytes + (long long)sizeof *t->spare));
}

static PyMethodDef table_methods[] = {
    {"stage", table_stage, METH_O, stage_doc},
    {"commit", table_commit, METH_VARARGS, commit_doc},
    {"abandon", table_abandon, METH_NOARGS, abandon_doc},
    {"find", table_find, METH_VARARGS, find_doc},
    {"remove", table_remove, METH_O, remove_doc},
    {"ids", table_ids, METH_NOARGS, ids_doc},
    {0},
};

static PyGetSetDef table_getset[] = {
    {"nbytes", table_nbytes, NULL, "Memory of the table.", NULL},
    {0},
};

PyDoc_STRVAR(table_doc,
             "Table(data_bytes)\n--\n\n"
             "Entries of a directory: id, owner, local id, so many bytes of user data.");
static PyType_Slot table_slots[] = {
    {Py_tp_doc, (void *)table_doc},
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_tp_getset, table_getset},
    {Py_sq_length, table_length},
    {0, NULL},
};

static PyType_Spec table_spec = {
    .name = "pylb._core.Table",
    .basicsize = sizeof(table_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = table_slots,
};

static PyMethodDef methods[] = {
    {"route", route, METH_VARARGS, route_doc},
    {"gather", gather, METH_VARARGS, gather_doc},
    {"scatter", scatter, METH_VARARGS, scatter_doc},
    {"home", home, METH_VARARGS, home_doc},
    {0},
};

int plb_py_add_move(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed ? -1 : PyModule_AddFunctions(module, methods);
}
