/* Room partition: what a partition is worth, and who moves. */
#include "bind/views.h"

#include "partition/moves.h"
#include "partition/quality.h"
#include "partition/remap.h"

/* *data = view of `object`; *n its entries.  None: NULL and 0. */
static int view(plb_py_held_t *held, PyObject *object, int type, const void *data, int64_t *n)
{
    PyArrayObject *a = plb_py_hold(held, object, type, 1);
    *n = a == NULL ? 0 : PyArray_SIZE(a);
    *(const void **)data = a == NULL ? NULL : PyArray_DATA(a);
    return a == NULL && PyErr_Occurred() ? -1 : 0;
}

static int view_ints(plb_py_held_t *held, PyObject *object, plb_ints_t *out, int64_t *n)
{
    out->wide = !(PyArray_Check(object) && PyArray_TYPE((PyArrayObject *)object) == NPY_INT32);
    return view(held, object, out->wide ? NPY_INT64 : NPY_INT32, &out->data, n);
}

/* start, to and weight, checked for their sizes only. */
static int view_rows(plb_py_held_t *held, PyObject *start, PyObject *to, PyObject *weight,
                     plb_rows_t *out, int64_t *n_entries)
{
    int64_t n_weights;
    if (view_ints(held, start, &out->start, &out->n) || view_ints(held, to, &out->to, n_entries) ||
        view(held, weight, NPY_FLOAT64, &out->weight, &n_weights)) {
        return -1;
    }
    if (--out->n < 0) {
        PyErr_SetString(PyExc_ValueError, "start is empty: expected an entry more than rows");
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(scan_doc, "scan_rows(name, start, to, first, objects, /)\n--\n\n"
                       "(loops, skew) of checked rows; int32 and int64 without a copy.");
static PyObject *scan_rows(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *start, *to;
    long long first, objects;
    if (!PyArg_ParseTuple(args, "sOOLL", &name, &start, &to, &first, &objects)) {
        return NULL;
    }
    plb_err_t err = {0, ""};
    plb_py_held_t held = {0};
    plb_rows_t rows;
    plb_scan_t out;
    int64_t n_entries;
    int ret = PLB_ERR_CALLBACK;
    if (view_rows(&held, start, to, Py_None, &rows, &n_entries) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_rows_scan(&rows, name, n_entries, first, objects, &out, &err);
        Py_END_ALLOW_THREADS;
    }
    plb_py_release(&held);
    return ret != PLB_OK ? plb_py_raise(ret, &err)
                         : Py_BuildValue("LL", (long long)out.loops, (long long)out.skew);
}

static int view_places(plb_py_held_t *held, long long first, PyObject *part, PyObject *ghost,
                       PyObject *ghost_part, plb_places_t *out)
{
    int64_t n_parts;
    out->first = first;
    if (view(held, part, NPY_INT32, &out->part, &out->n) ||
        view(held, ghost, NPY_INT64, &out->ghost, &out->n_ghosts) ||
        view(held, ghost_part, NPY_INT32, &out->ghost_part, &n_parts)) {
        return -1;
    }
    if (n_parts != out->n_ghosts) {
        PyErr_SetString(PyExc_ValueError, "ghost_part: expected a part for each ghost");
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(graph_doc,
             "graph_quality(start, to, weight, parts, first, part, ghost, ghost_part, /)\n--\n\n"
             "(cut, cut weight, boundary) of each part, volume, pairs of neighbours; rows that\n"
             "scan_rows has passed, and every object of others is among the ghosts.");
static PyObject *graph_quality(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *to, *weight, *part, *ghost, *ghost_part, *result = NULL;
    long long first;
    int parts, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTuple(args, "OOOiLOOO", &start, &to, &weight, &parts, &first, &part, &ghost,
                          &ghost_part)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    plb_rows_t rows;
    plb_places_t places = {.n_parts = parts};
    int64_t n_entries, n_pairs = 0, *pair = NULL, *boundary = NULL;
    double *cut = NULL, *cut_weight = NULL, volume = 0.0;
    if (view_rows(&held, start, to, weight, &rows, &n_entries) != 0 ||
        view_places(&held, first, part, ghost, ghost_part, &places) != 0) {
        goto out;
    }
    PLB_NEW(cut, parts);
    PLB_NEW(cut_weight, parts);
    PLB_NEW(boundary, parts);
    Py_BEGIN_ALLOW_THREADS;
    ret = plb_quality_graph(&rows, &places, cut, cut_weight, boundary, &volume, &pair, &n_pairs,
                            err);
    Py_END_ALLOW_THREADS;
out:
    plb_py_release(&held);
    if (ret != PLB_OK) {
        plb_free(cut);
        plb_free(cut_weight);
        plb_free(boundary);
        return plb_py_raise(ret, err);
    }
    PyObject *array[4] = {
        plb_py_take(cut, parts, NPY_FLOAT64), plb_py_take(cut_weight, parts, NPY_FLOAT64),
        plb_py_take(boundary, parts, NPY_INT64), plb_py_take(pair, (npy_intp)n_pairs, NPY_INT64)};
    if (array[0] && array[1] && array[2] && array[3]) {
        result = Py_BuildValue("OOOdO", array[0], array[1], array[2], volume, array[3]);
    }
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(array[i]);
    }
    return result;
}

PyDoc_STRVAR(nets_doc, "nets_quality(start, pin, weight, parts, first, part, ghost, ghost_part, "
                       "/)\n--\n\n"
                       "(connectivity - 1, cut nets), both weighted.");
static PyObject *nets_quality(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *to, *weight, *part, *ghost, *ghost_part;
    long long first;
    int parts, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTuple(args, "OOOiLOOO", &start, &to, &weight, &parts, &first, &part, &ghost,
                          &ghost_part)) {
        return NULL;
    }
    plb_err_t err = {0, ""};
    plb_py_held_t held = {0};
    plb_rows_t rows;
    plb_places_t places = {.n_parts = parts};
    int64_t n_entries;
    double connectivity = 0.0, cut = 0.0;
    if (view_rows(&held, start, to, weight, &rows, &n_entries) == 0 &&
        view_places(&held, first, part, ghost, ghost_part, &places) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_quality_nets(&rows, &places, &connectivity, &cut, &err);
        Py_END_ALLOW_THREADS;
    }
    plb_py_release(&held);
    return ret != PLB_OK ? plb_py_raise(ret, &err) : Py_BuildValue("dd", connectivity, cut);
}

PyDoc_STRVAR(sums_doc,
             "part_sums(part, parts, weight, columns, /)\n--\n\n"
             "Objects of each part, and each column of the weights, one behind the other.");
static PyObject *part_sums(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *weights;
    int parts, columns, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTuple(args, "OiOi", &object, &parts, &weights, &columns)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    const int32_t *part;
    int64_t n;
    double *sums = NULL;
    PyArrayObject *weight = plb_py_hold(&held, weights, NPY_FLOAT64, 2);
    if (PyErr_Occurred() || view(&held, object, NPY_INT32, &part, &n) != 0) {
        goto out;
    }
    if (parts < 1 || columns < 0 || (weight == NULL ? 0 : PyArray_SIZE(weight)) != n * columns) {
        PyErr_SetString(PyExc_ValueError, "parts, weight: expected 1 or more, (n, columns)");
        goto out;
    }
    PLB_NEW(sums, (int64_t)parts * (1 + columns));
    Py_BEGIN_ALLOW_THREADS;
    ret = plb_part_sums(part, n, parts, weight == NULL ? NULL : PyArray_DATA(weight), columns,
                        sums, err);
    Py_END_ALLOW_THREADS;
out:
    plb_py_release(&held);
    if (ret != PLB_OK) {
        plb_free(sums);
        return plb_py_raise(ret, err);
    }
    return plb_py_take(sums, (npy_intp)parts * (1 + columns), NPY_FLOAT64);
}

PyDoc_STRVAR(remap_doc,
             "remap(parts, ranks, share, fixed, kept_part, kept_old, kept, on_rank, /)\n--\n\n"
             "New name of each part; csrc/partition/remap.h.");
static PyObject *remap(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *share, *fixed, *part, *old, *kept, *on_rank;
    plb_new_names_t in = {0};
    if (!PyArg_ParseTuple(args, "iiOOOOOO", &in.n_parts, &in.n_ranks, &share, &fixed, &part, &old,
                          &kept, &on_rank)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    int32_t *name = NULL;
    const int64_t k = in.n_parts;
    int ret = PLB_ERR_CALLBACK;
    in.n_kept = kept == Py_None ? 0 : PyObject_Size(kept);
    if (plb_py_view(&held, share, "share", NPY_FLOAT64, k, &in.share) ||
        plb_py_view(&held, fixed, "fixed", NPY_BOOL, k, &in.fixed) ||
        plb_py_view(&held, part, "part", NPY_INT32, in.n_kept, &in.part) ||
        plb_py_view(&held, old, "old", NPY_INT32, in.n_kept, &in.old) ||
        plb_py_view(&held, kept, "kept", NPY_FLOAT64, in.n_kept, &in.kept) ||
        plb_py_view(&held, on_rank, "on_rank", NPY_FLOAT64, k * in.n_ranks, &in.on_rank)) {
        goto out;
    }
    PLB_NEW(name, k);
    Py_BEGIN_ALLOW_THREADS;
    ret = plb_remap(&in, name, err);
    Py_END_ALLOW_THREADS;
out:
    plb_py_release(&held);
    if (ret != PLB_OK) {
        plb_free(name);
        return plb_py_raise(ret, err);
    }
    return plb_py_take(name, (npy_intp)k, NPY_INT32);
}

PyDoc_STRVAR(
    moves_doc,
    "moves(part, old, parts, first, ids, /)\n--\n\n"
    "(row, id, new part) of the objects of one process that change their part, ascending;\n"
    "csrc/partition/moves.h.");
static PyObject *moves(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *part, *old, *ids;
    plb_new_parts_t in = {.n_ranks = 1};
    long long first;
    if (!PyArg_ParseTuple(args, "OOiLO", &part, &old, &in.n_parts, &first, &ids)) {
        return NULL;
    }
    plb_err_t err = {0, ""};
    plb_py_held_t held = {0};
    plb_moves_t out = {0};
    int64_t n_old, n_ids;
    int ret = PLB_ERR_CALLBACK;
    in.first = first;
    if (view(&held, part, NPY_INT32, &in.part, &in.n) == 0 &&
        view(&held, old, NPY_INT32, &in.old, &n_old) == 0 &&
        view(&held, ids, NPY_INT64, &in.ids, &n_ids) == 0) {
        if ((in.old != NULL && n_old != in.n) || (in.ids != NULL && n_ids != in.n)) {
            PyErr_SetString(PyExc_ValueError, "old, ids: expected as many entries as in part");
        } else {
            Py_BEGIN_ALLOW_THREADS;
            ret = plb_moves_init(&out, &in, &err);
            Py_END_ALLOW_THREADS;
        }
    }
    plb_py_release(&held);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    PyObject *found = Py_BuildValue("NNN", plb_py_take(out.row, (npy_intp)out.n, NPY_INT64),
                                    plb_py_take(out.id, (npy_intp)out.n, NPY_INT64),
                                    plb_py_take(out.part, (npy_intp)out.n, NPY_INT32));
    out.row = out.id = NULL; /* numpy's now */
    out.part = NULL;
    plb_moves_free(&out);
    return found;
}

static PyMethodDef methods[] = {
    {"scan_rows", scan_rows, METH_VARARGS, scan_doc},
    {"graph_quality", graph_quality, METH_VARARGS, graph_doc},
    {"nets_quality", nets_quality, METH_VARARGS, nets_doc},
    {"part_sums", part_sums, METH_VARARGS, sums_doc},
    {"remap", remap, METH_VARARGS, remap_doc},
    {"moves", moves, METH_VARARGS, moves_doc},
    {0},
};

int plb_py_add_quality(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
