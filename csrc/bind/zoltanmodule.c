/* pylb._zoltan.  Importing it starts MPI, through mpi4py, which also ends it. */
#define PLB_PY_MAIN
#include "bind/views.h"

#include "bind/library.h"

#include <mpi4py/mpi4py.h>

#include "partition/libraries/zoltan.h"

#define CUTS "pylb.zoltan.cuts" /* name of the capsules that hold a plb_zoltan_kept_t */

/* Zoltan and mpi4py must call the same MPI. */
static int check_mpi(PyObject *mpi)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    PyObject *other = PyObject_CallMethod(mpi, "Get_library_version", NULL);
    const char *theirs = other ? PyUnicode_AsUTF8(other) : NULL;
    if (theirs != NULL && strcmp(theirs, text) != 0) {
        PyErr_Format(PyExc_ImportError, "Zoltan is linked with %.60s, mpi4py with %.60s", text,
                     theirs);
        theirs = NULL;
    }
    Py_XDECREF(other);
    return theirs == NULL ? -1 : 0;
}

/* ---- the question ----------------------------------------------------------------------------
 */

typedef struct arguments {
    PyObject *comm, *dist, *old, *weight, *share, *coords, *start, *to, *edge_weight;
    PyObject *net_start, *pin, *net_weight, *fixed, *size, *options;
} arguments_t;

/* Integers of 32 bits as they are, all others as 64. */
static int view_ints(plb_py_held_t *held, PyObject *object, const char *name, int64_t n,
                     plb_ints_t *out)
{
    out->wide = !(PyArray_Check(object) && PyArray_TYPE((PyArrayObject *)object) == NPY_INT32);
    return plb_py_view(held, object, name, out->wide ? NPY_INT64 : NPY_INT32, n, &out->data);
}

static int64_t entries(PyObject *object)
{
    return object == Py_None ? 0 : (int64_t)PyObject_Size(object);
}

static int fill(plb_py_held_t *held, const arguments_t *a, plb_zoltan_t *q)
{
    const int64_t m = entries(a->to);
    const int64_t nets = q->n_nets =
        a->net_start == Py_None ? 0 : (int32_t)entries(a->net_start) - 1;
    int ranks = 1;
    if (a->comm == Py_None) {
        q->comm = MPI_COMM_SELF;
    } else {
        MPI_Comm *comm = PyMPIComm_Get(a->comm);
        if (comm == NULL) {
            return -1;
        }
        q->comm = *comm;
        MPI_Comm_size(q->comm, &ranks);
        MPI_Comm_rank(q->comm, &q->rank);
    }
    if (plb_py_view(held, a->dist, "dist", NPY_INT64, ranks + 1, &q->dist) != 0) {
        return -1;
    }
    q->first = q->dist[q->rank];
    const int64_t n = q->n = (int32_t)(q->dist[q->rank + 1] - q->first);
    const int64_t rows = a->start == Py_None ? 0 : n + 1;
    if (plb_py_view(held, a->old, "old", NPY_INT32, n, &q->old) ||
        plb_py_view(held, a->weight, "weight", NPY_FLOAT64, n * q->n_weights, &q->weight) ||
        plb_py_view(held, a->share, "share", NPY_FLOAT64, q->n_parts, &q->share) ||
        plb_py_view(held, a->coords, "coords", NPY_FLOAT64, n * q->n_dims, &q->coords) ||
        view_ints(held, a->start, "start", rows, &q->start) ||
        view_ints(held, a->to, "to", m, &q->to) ||
        plb_py_view(held, a->edge_weight, "edge_weight", NPY_FLOAT64, m, &q->edge_weight) ||
        view_ints(held, a->net_start, "net_start", nets + 1, &q->net_start) ||
        view_ints(held, a->pin, "pin", -1, &q->pin) ||
        plb_py_view(held, a->net_weight, "net_weight", NPY_FLOAT64, nets, &q->net_weight) ||
        plb_py_view(held, a->fixed, "fixed", NPY_INT32, n, &q->fixed) ||
        plb_py_view(held, a->size, "size", NPY_INT32, n, &q->size)) {
        return -1;
    }
    return 0;
}

/* ---- the answer ------------------------------------------------------------------------------
 */

static void leave_cuts(PyObject *capsule)
{
    plb_zoltan_leave(PyCapsule_GetPointer(capsule, CUTS));
}

static PyObject *cuts_capsule(plb_zoltan_kept_t *kept)
{
    PyObject *out = kept == NULL ? Py_NewRef(Py_None) : PyCapsule_New(kept, CUTS, leave_cuts);
    if (out == NULL) {
        plb_zoltan_leave(kept);
    }
    return out;
}

/* The call with its ears open. */
static int run(const plb_zoltan_t *q, int32_t *part, int *code, plb_zoltan_kept_t **keep,
               char **said, plb_err_t *err)
{
    plb_err_t unheard;
    int ret = plb_zoltan_has_mpi(err);
    if (ret == PLB_OK) {
        ret = plb_zoltan_listen_begin(err);
    }
    if (ret == PLB_OK) {
        ret = plb_zoltan_run(q, part, code, keep, err);
        plb_zoltan_listen_end(said, &unheard);
    }
    return ret;
}

PyDoc_STRVAR(
    partition_doc,
    "partition(comm, dist, parts, home, old, *, n_weights=0, n_dims=0, first_net=0, weight=None,\n"
    "          share=None, coords=None, start=None, to=None, edge_weight=None, net_start=None,\n"
    "          pin=None, net_weight=None, fixed=None, size=None, options=[], keep=False,\n"
    "          imports=False, spare=0, scale=0.0)\n--\n\n"
    "(part of each own object, Zoltan's code, what it said, its cuts or None).  Collective over\n"
    "comm (None: this process alone); csrc/partitioners/zoltan.h has the arguments.  Arrays of\n"
    "their type are not copied; options is [name, value, ...].  The GIL is released.");
static PyObject *partition(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"comm",      "dist",       "parts",     "home",        "old",
                            "n_weights", "n_dims",     "first_net", "weight",      "share",
                            "coords",    "start",      "to",        "edge_weight", "net_start",
                            "pin",       "net_weight", "fixed",     "size",        "options",
                            "keep",      "imports",    "spare",     "scale",       NULL};
    PyObject *no = Py_None, *result = NULL, *made = NULL;
    arguments_t a = {no, no, no, no, no, no, no, no, no, no, no, no, no, no, NULL};
    plb_zoltan_t q = {0};
    long long first_net = 0, spare = 0;
    int keep = 0, imports = 0, code = 0, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OOiiO|$iiLOOOOOOOOOOOO!ppLd", names, &a.comm, &a.dist, &q.n_parts,
            &q.home, &a.old, &q.n_weights, &q.n_dims, &first_net, &a.weight, &a.share, &a.coords,
            &a.start, &a.to, &a.edge_weight, &a.net_start, &a.pin, &a.net_weight, &a.fixed,
            &a.size, &PyList_Type, &a.options, &keep, &imports, &spare, &q.scale)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    int32_t *part = NULL;
    char *said = NULL;
    plb_zoltan_kept_t *kept = NULL;
    const char **option = NULL;
    q.first_net = first_net;
    q.imports = imports;
    q.spare = spare;
    if ((a.options != NULL && (option = plb_py_texts(a.options)) == NULL) ||
        fill(&held, &a, &q) != 0) {
        goto out;
    }
    q.option = option;
    q.n_options = a.options == NULL ? 0 : (int)(PyList_GET_SIZE(a.options) / 2);
    PLB_NEW(part, q.n);
    Py_BEGIN_ALLOW_THREADS;
    ret = run(&q, part, &code, keep ? &kept : NULL, &said, err);
    Py_END_ALLOW_THREADS;
out:
    if (ret == PLB_OK) {
        made = cuts_capsule(kept);
        PyObject *array = plb_py_take(part, q.n, NPY_INT32);
        result = made == NULL || array == NULL
                     ? NULL
                     : Py_BuildValue("OisO", array, code, said == NULL ? "" : said, made);
        Py_XDECREF(made);
        Py_XDECREF(array);
    } else {
        plb_free(part);
        plb_py_raise(ret, err);
    }
    plb_free(said);
    PyMem_Free(option);
    plb_py_release(&held);
    return result;
}

PyDoc_STRVAR(
    spare_doc,
    "spare(comm, /)\n--\n\n"
    "Bits of the structures kept with comm that nobody on this rank holds.  What all ranks\n"
    "have in common, `partition` may take.  Local.");
static PyObject *spare(PyObject *module, PyObject *comm)
{
    (void)module;
    const MPI_Comm *handle = PyMPIComm_Get(comm);
    return handle == NULL ? NULL : PyLong_FromLongLong(plb_zoltan_spare(*handle));
}

/* ---- the cuts --------------------------------------------------------------------------------
 */

/* n rows of `dims` numbers, or NULL with an exception. */
static const double *rows(plb_py_held_t *held, PyObject *object, int32_t dims, int64_t *n)
{
    PyArrayObject *a = plb_py_hold(held, object, NPY_FLOAT64, 2);
    if (a == NULL || PyArray_DIM(a, 1) != dims) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "expected an array of shape (n, %d)", dims);
        }
        return NULL;
    }
    *n = PyArray_DIM(a, 0);
    return PyArray_DATA(a);
}

PyDoc_STRVAR(points_doc, "points(cuts, n_dims, points, /)\n--\n\n"
                         "The part in whose region each point lies; the GIL is released.");
static PyObject *points(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule, *object;
    int dims, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTuple(args, "OiO", &capsule, &dims, &object)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    int64_t n = 0;
    int32_t *part = NULL;
    plb_zoltan_kept_t *kept = PyCapsule_GetPointer(capsule, CUTS);
    const double *x = kept == NULL ? NULL : rows(&held, object, dims, &n);
    if (x == NULL) {
        goto out;
    }
    PLB_NEW(part, n);
    Py_BEGIN_ALLOW_THREADS;
    ret = plb_zoltan_points(kept, dims, n, x, part, err);
    Py_END_ALLOW_THREADS;
out:
    plb_py_release(&held);
    if (ret != PLB_OK) {
        plb_free(part);
        return plb_py_raise(ret, err);
    }
    return plb_py_take(part, n, NPY_INT32);
}

PyDoc_STRVAR(boxes_doc,
             "boxes(cuts, n_dims, n_parts, name, lo, hi, /)\n--\n\n"
             "(start, part): the parts that each box meets, by the names of the regions\n"
             "(None: their numbers); the GIL is released.");
static PyObject *boxes(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule, *names, *low, *high, *result = NULL;
    int dims, parts, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTuple(args, "OiiOOO", &capsule, &dims, &parts, &names, &low, &high)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    int64_t n = 0, m = 0, *start = NULL;
    int32_t *part = NULL;
    const int32_t *name = NULL;
    plb_zoltan_kept_t *kept = PyCapsule_GetPointer(capsule, CUTS);
    if (kept == NULL || plb_py_view(&held, names, "name", NPY_INT32, parts, &name) != 0) {
        goto out;
    }
    const double *lo = rows(&held, low, dims, &n);
    const double *hi = lo == NULL ? NULL : rows(&held, high, dims, &m);
    if (hi == NULL || n != m) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "lo and hi: expected as many rows");
        }
        goto out;
    }
    PLB_NEW(start, n + 1);
    Py_BEGIN_ALLOW_THREADS;
    ret = plb_zoltan_boxes(kept, dims, parts, name, n, lo, hi, start, &part, err);
    Py_END_ALLOW_THREADS;
out:
    plb_py_release(&held);
    if (ret != PLB_OK) {
        plb_free(start);
        return plb_py_raise(ret, err);
    }
    const npy_intp used = (npy_intp)start[n];
    PyObject *starts = plb_py_take(start, n + 1, NPY_INT64);
    PyObject *found = plb_py_take(part, used, NPY_INT32);
    if (starts != NULL && found != NULL) {
        result = PyTuple_Pack(2, starts, found);
    }
    Py_XDECREF(starts);
    Py_XDECREF(found);
    return result;
}

PyDoc_STRVAR(regions_doc, "regions(cuts, n_dims, n_parts, /)\n--\n\n"
                          "(lo, hi) of each part under RCB, one after the other.");
static PyObject *regions(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    int dims, parts, ret = PLB_ERR_CALLBACK;
    if (!PyArg_ParseTuple(args, "Oii", &capsule, &dims, &parts)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    double *lo = NULL, *hi = NULL;
    plb_zoltan_kept_t *kept = PyCapsule_GetPointer(capsule, CUTS);
    if (kept == NULL) {
        return NULL;
    }
    const npy_intp n = (npy_intp)dims * parts;
    PLB_NEW(lo, n);
    PLB_NEW(hi, n);
    ret = plb_zoltan_regions(kept, dims, parts, lo, hi, err);
out:
    if (ret != PLB_OK) {
        plb_free(lo);
        plb_free(hi);
        return plb_py_raise(ret, err);
    }
    PyObject *a = plb_py_take(lo, n, NPY_FLOAT64), *b = plb_py_take(hi, n, NPY_FLOAT64);
    PyObject *result = a == NULL || b == NULL ? NULL : PyTuple_Pack(2, a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result;
}

static PyMethodDef methods[] = {
    {"partition", (PyCFunction)(void (*)(void))partition, METH_VARARGS | METH_KEYWORDS,
     partition_doc},
    {"spare", spare, METH_O, spare_doc},
    {"points", points, METH_VARARGS, points_doc},
    {"boxes", boxes, METH_VARARGS, boxes_doc},
    {"regions", regions, METH_VARARGS, regions_doc},
    {0},
};

static int zoltan_exec(PyObject *module)
{
    if (PyArray_ImportNumPyAPI() < 0 || import_mpi4py() < 0) {
        return -1;
    }
    PyObject *mpi = PyImport_ImportModule("mpi4py.MPI");
    const int ret = mpi == NULL || check_mpi(mpi) != 0 ? -1 : 0;
    Py_XDECREF(mpi);
    if (ret != 0 || PyModule_AddFunctions(module, methods) != 0) {
        return -1;
    }
    return plb_py_add_library(module, &plb_zoltan);
}

PLB_PY_LIBRARY_MODULE(zoltan, "Zoltan for pylb.", zoltan_exec)
