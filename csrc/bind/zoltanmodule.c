/* pylb._zoltan.  Importing this module starts MPI through mpi4py, which also finalizes MPI. */
#define PLB_PY_MAIN
#include "bind/library.h"

#include <mpi4py/mpi4py.h>

#include "partition/libraries/zoltan.h"

#define CUTS "pylb_zoltan_cuts" /* name of the capsules that hold a plb_zoltan_kept_t */

/* Check that Zoltan and mpi4py use the same MPI library. */
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

/* Set communicator and rank of a call; return the number of ranks. */
static int read_comm(PyObject *comm, plb_zoltan_t *q)
{
    int ranks = 1;
    q->comm = MPI_COMM_SELF;
    if (comm != Py_None) {
        MPI_Comm *handle = PyMPIComm_Get(comm);
        PLB_PY_PASS(handle == NULL);
        q->comm = *handle;
        MPI_Comm_size(q->comm, &ranks);
        MPI_Comm_rank(q->comm, &q->rank);
    }
    return ranks;
}

/* Read the arguments after `comm`. */
static int read_question(plb_py_call_t *c, int n_ranks, plb_zoltan_t *q, bool *keep)
{
    PyObject *options = NULL;
    int64_t ranks = -1, m = -1, nets = -1, pins = -1;
    PLB_PY_PASS(plb_py_parse(c, &q->dist, &ranks, &q->n_parts, &q->home));
    PLB_PY_REFUSE_IF(ranks != n_ranks, PyExc_ValueError, "dist has %lld entries: expected %d",
                     (long long)ranks + 1, n_ranks + 1);
    q->first = q->dist[q->rank];
    q->n = (int32_t)(q->dist[q->rank + 1] - q->first);
    int64_t n = q->n, k = q->n_parts;
    PLB_PY_PASS(plb_py_parse(c, &q->old, &n, &q->n_weights, &q->n_dims, &q->first_net, &options,
                             keep, &q->imports, &q->spare, &q->scale));
    int64_t weights = n * q->n_weights, coords = n * q->n_dims;
    PLB_PY_PASS(plb_py_parse(c, &q->weight, &weights, &q->share, &k, &q->coords, &coords,
                             &q->start, &n, &q->to, &m, &q->edge_weight, &m, &q->net_start, &nets,
                             &q->pin, &pins, &q->net_weight, &nets, &q->fixed, &n, &q->size, &n));
    q->n_nets = nets < 0 ? 0 : (int32_t)nets;
    return plb_py_options(c, options, &q->option, &q->n_options);
}

PLB_PY_FN(
    partition,
    "comm:O ... dist:i8@+ parts:i home:i ... old:i4@? * n_weights:i=0 n_dims:i=0 first_net:l=0 "
    "options:L=[] keep:p=False imports:p=False spare:l=0 scale:d=0.0 ... weight:f8@?=None "
    "share:f8@?=None coords:f8@?=None start:I@+?=None to:I@?=None edge_weight:f8@?=None "
    "net_start:I@+?=None pin:I@?=None net_weight:f8@?=None fixed:i4@?=None size:i4@?=None",
    "Return (part of each of this rank's objects, cuts).  cuts: for points(), if `keep`; else\n"
    "None.  Collective over comm (None: only this process).\n"
    "Does not copy arrays of the right type.  options: [name, value, ...]; the other\n"
    "arguments: see csrc/partition/libraries/zoltan.h.  The GIL is released.")
{
    PyObject *comm;
    plb_zoltan_t q = {0};
    bool keep = false;
    int32_t *part = NULL;
    plb_zoltan_kept_t *kept = NULL;
    PLB_PY_TRY(plb_py_parse(c, &comm));
    const int size = read_comm(comm, &q);
    PLB_PY_TRY(size < 0);
    if (read_question(c, size, &q, &keep) != 0 || (part = plb_py_new(c, NPY_INT32, q.n)) == NULL) {
        /* the other ranks fail, too */
        (void)PLB_PY_UNLOCKED(c, plb_zoltan_refuse(q.comm, &c->err));
        return NULL;
    }
    plb_zoltan_kept_t **kept_at = keep ? &kept : NULL;
    PLB_PY_RUN(c, plb_zoltan_run(&q, part, kept_at, &c->err));
    return Py_BuildValue("NN", plb_py_sealed(c, part), cuts_capsule(kept));
}

PLB_PY_FN1(
    spare, comm,
    "Return, as bits of a number, which Zoltan structures kept with comm are unused on this\n"
    "rank.  `partition` may take those that are unused on all ranks.  Not collective.")
{
    const MPI_Comm *handle = PyMPIComm_Get(comm);
    PLB_PY_GET(handle);
    return PyLong_FromLongLong(plb_zoltan_spare(*handle));
}

/* ---- cuts that partition(keep=True) returned ------------------------------------------------ */

/* View an array of n rows of `dims` numbers. */
static const double *rows(plb_py_held_t *held, PyObject *object, int32_t dims, int64_t *n)
{
    PyArrayObject *a = plb_py_hold(held, object, NPY_FLOAT64, 2);
    PLB_PY_GET(a);
    PLB_PY_RAISE_IF(PyArray_DIM(a, 1) != dims, PyExc_ValueError,
                    "expected an array of shape (n, %d)", (int)dims);
    *n = PyArray_DIM(a, 0);
    return PyArray_DATA(a);
}

PLB_PY_FN(points, "cuts:O n_dims:i points:O",
          "Return the part in whose region each point lies.  cuts: from partition(keep=True).")
{
    PyObject *capsule, *object;
    int32_t dims;
    int64_t n = 0;
    plb_zoltan_kept_t *kept;
    const double *x;
    PLB_PY_TRY(plb_py_parse(c, &capsule, &dims, &object));
    PLB_PY_GET(kept = PyCapsule_GetPointer(capsule, CUTS));
    PLB_PY_GET(x = rows(&c->held, object, dims, &n));
    int32_t *part = plb_py_new(c, NPY_INT32, n);
    PLB_PY_RUN(c, plb_zoltan_points(kept, dims, n, x, part, &c->err));
    return plb_py_sealed(c, part);
}

PLB_PY_FN(boxes, "cuts:O n_dims:i n_parts:i name:i4@? lo:O hi:O",
          "Return (start, part): the parts whose regions each box meets; those of box i are\n"
          "part[start[i]] ... part[start[i + 1] - 1].  name: the part of each region; None:\n"
          "region i is part i.")
{
    PyObject *capsule, *low, *high;
    int32_t dims, parts, *part = NULL;
    const int32_t *name;
    int64_t n = 0, m = 0, n_names = -1;
    plb_zoltan_kept_t *kept;
    const double *lo, *hi;
    PLB_PY_TRY(plb_py_parse(c, &capsule, &dims, &parts, &name, &n_names, &low, &high));
    PLB_PY_GET(kept = PyCapsule_GetPointer(capsule, CUTS));
    PLB_PY_GET(lo = rows(&c->held, low, dims, &n));
    PLB_PY_GET(hi = rows(&c->held, high, dims, &m));
    PLB_PY_RAISE_IF(n != m || (name != NULL && n_names != parts), PyExc_ValueError,
                    "lo, hi: expected the same number of rows; name: expected one for each part");
    int64_t *start = plb_py_new(c, NPY_INT64, n + 1);
    PLB_PY_RUN(c, plb_zoltan_boxes(kept, dims, parts, name, n, lo, hi, start, &part, &c->err));
    return Py_BuildValue("NN", plb_py_sealed(c, start), plb_py_take(part, start[n], NPY_INT32));
}

PLB_PY_FN(regions, "cuts:O n_dims:i n_parts:i",
          "Return (lo, hi): the corners of each part's region under RCB, n_dims numbers each.")
{
    PyObject *capsule;
    int32_t dims, parts;
    plb_zoltan_kept_t *kept;
    PLB_PY_TRY(plb_py_parse(c, &capsule, &dims, &parts));
    PLB_PY_GET(kept = PyCapsule_GetPointer(capsule, CUTS));
    double *lo = plb_py_new(c, NPY_FLOAT64, (int64_t)dims * parts);
    double *hi = plb_py_new(c, NPY_FLOAT64, (int64_t)dims * parts);
    return PLB_PY_OR(c, plb_zoltan_regions(kept, dims, parts, lo, hi, &c->err),
                     Py_BuildValue("NN", plb_py_sealed(c, lo), plb_py_sealed(c, hi)));
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, partition, spare, points, boxes, regions);

static int zoltan_exec(PyObject *module)
{
    PLB_PY_PASS(PyArray_ImportNumPyAPI() < 0);
    PLB_PY_PASS(import_mpi4py() < 0);
    PyObject *mpi = PyImport_ImportModule("mpi4py.MPI");
    const int ret = mpi == NULL || check_mpi(mpi) != 0 ? -1 : 0;
    Py_XDECREF(mpi);
    if (ret != 0 || plb_py_add_functions(module, methods) != 0) {
        return -1;
    }
    return plb_py_add_library(module, plb_zoltan());
}

PLB_PY_MODULE(zoltan, "Zoltan for pylb.", zoltan_exec)
