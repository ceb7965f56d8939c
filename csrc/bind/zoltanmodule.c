/* pylb._zoltan.  Importing this module starts MPI through mpi4py, which also finalizes MPI. */
#define PLB_PY_MAIN
#include "bind/library.h"

#include "bind/mpi_comm.h"

#include "partition/libraries/zoltan.h"

#define CUTS "pylb_zoltan_cuts" /* name of the capsules that hold a Zoltan structure */

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

static PyObject *cuts_capsule(struct Zoltan_Struct *kept)
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
        if (plb_py_mpi_comm(comm, &q->comm) != 0) {
            return -1;
        }
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
    PLB_PASS(PLB_READ(c, PLB_MANY(&q->dist, &ranks), PLB_ONE(&q->n_parts), PLB_ONE(&q->home)));
    PLB_PASS(plb_py_refuse(ranks != n_ranks, PyExc_ValueError,
                           "dist has %lld entries: expected %d", (long long)ranks + 1,
                           n_ranks + 1));
    q->first = q->dist[q->rank];
    q->n = (int32_t)(q->dist[q->rank + 1] - q->first);
    int64_t n = q->n, k = q->n_parts;
    PLB_PASS(PLB_READ(c, PLB_MANY(&q->old, &n), PLB_ONE(&q->n_weights), PLB_ONE(&q->n_dims),
                      PLB_ONE(&q->first_net), PLB_ONE(&options), PLB_ONE(keep),
                      PLB_ONE(&q->scale)));
    int64_t weights = n * q->n_weights, coords = n * q->n_dims;
    PLB_PASS(PLB_READ(c, PLB_MANY(&q->weight, &weights), PLB_MANY(&q->share, &k),
                      PLB_MANY(&q->coords, &coords), PLB_MANY(&q->start, &n), PLB_MANY(&q->to, &m),
                      PLB_MANY(&q->edge_weight, &m), PLB_MANY(&q->net_start, &nets),
                      PLB_MANY(&q->pin, &pins), PLB_MANY(&q->net_weight, &nets),
                      PLB_MANY(&q->fixed, &n), PLB_MANY(&q->size, &n)));
    q->n_nets = nets < 0 ? 0 : (int32_t)nets;
    return plb_py_options(c, options, &q->option, &q->n_options);
}

PLB_PY_DEF(
    fn, partition,
    "comm ... dist:@+ parts home ... old:@? * n_weights=0 n_dims=0 first_net=0 options:L=[] "
    "keep=False scale=0.0 ... weight:@?=None share:@?=None coords:@?=None "
    "start:@+?=None to:@?=None edge_weight:@?=None net_start:@+?=None pin:@?=None "
    "net_weight:@?=None fixed:@?=None size:@?=None",
    "Return (part of each of this rank's objects, cuts).  cuts: for points(), if `keep`; else\n"
    "None.  Collective over comm (None: only this process).\n"
    "Does not copy arrays of the right type.  options: [name, value, ...]; the other\n"
    "arguments: see csrc/partition/libraries/zoltan.h.  The GIL is released.")
{
    PyObject *comm;
    plb_zoltan_t q = {0};
    bool keep = false;
    int32_t *part = NULL;
    struct Zoltan_Struct *kept = NULL;
    PLB_PASS(PLB_READ(c, PLB_ONE(&comm)));
    const int size = read_comm(comm, &q);
    PLB_PASS(size < 0);
    if (read_question(c, size, &q, &keep) != 0 || (part = plb_py_new(c, NPY_INT32, q.n)) == NULL) {
        /* the other ranks fail, too */
        (void)plb_py_unlock(c);
        plb_zoltan_refuse(q.comm, NULL);
        plb_py_lock(c);
        return -1;
    }
    struct Zoltan_Struct **kept_at = keep ? &kept : NULL;
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_zoltan_run(&q, part, kept_at, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NN", plb_py_sealed(c, part), cuts_capsule(kept)));
}

/* ---- cuts that partition(keep=True) returned ------------------------------------------------ */

PLB_PY_DEF(fn, points, "cuts n_dims points:@", "Return the part in whose region each point lies.")
{
    PyObject *capsule;
    int32_t dims;
    int64_t n = -1;
    struct Zoltan_Struct *kept;
    const double *x;
    PLB_PASS(PLB_READ(c, PLB_ONE(&capsule), PLB_ONE(&dims), PLB_MANY(&x, &n)));
    PLB_PASS((kept = PyCapsule_GetPointer(capsule, CUTS)) == NULL);
    n /= dims;
    int32_t *part = plb_py_new(c, NPY_INT32, n);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_zoltan_points(kept, dims, n, x, part, &c->err)));
    return plb_py_answer(c, plb_py_sealed(c, part));
}

PLB_PY_DEF(fn, boxes, "cuts n_dims n_parts name:@? lo:@ hi:@",
           "Return (start, part): the parts whose regions each box meets; those of box i are "
           "part[start[i]] ...")
{
    PyObject *capsule;
    int32_t dims, parts, *part = NULL;
    const int32_t *name;
    int64_t n = -1, n_names = -1;
    struct Zoltan_Struct *kept;
    const double *lo, *hi;
    PLB_PASS(PLB_READ(c, PLB_ONE(&capsule), PLB_ONE(&dims), PLB_ONE(&parts),
                      PLB_MANY(&name, &n_names), PLB_MANY(&lo, &n), PLB_MANY(&hi, &n)));
    PLB_PASS((kept = PyCapsule_GetPointer(capsule, CUTS)) == NULL);
    PLB_PASS(plb_py_refuse(name != NULL && n_names != parts, PyExc_ValueError,
                           "name: expected one for each part"));
    n /= dims;
    int64_t *start = plb_py_new(c, NPY_INT64, n + 1);
    PLB_PASS(PLB_PY_UNLOCKED(
        c, plb_zoltan_boxes(kept, dims, parts, name, n, lo, hi, start, &part, &c->err)));
    return plb_py_answer(
        c, Py_BuildValue("NN", plb_py_sealed(c, start), plb_py_take(part, start[n], NPY_INT32)));
}

PLB_PY_DEF(fn, regions, "cuts n_dims n_parts",
           "Return (lo, hi): the corners of each part's region under RCB, n_dims numbers each.")
{
    PyObject *capsule;
    int32_t dims, parts;
    struct Zoltan_Struct *kept;
    PLB_PASS(PLB_READ(c, PLB_ONE(&capsule), PLB_ONE(&dims), PLB_ONE(&parts)));
    PLB_PASS((kept = PyCapsule_GetPointer(capsule, CUTS)) == NULL);
    double *lo = plb_py_new(c, NPY_FLOAT64, (int64_t)dims * parts);
    double *hi = plb_py_new(c, NPY_FLOAT64, (int64_t)dims * parts);
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_zoltan_regions(kept, dims, parts, lo, hi, &c->err)));
    return plb_py_answer(c, Py_BuildValue("NN", plb_py_sealed(c, lo), plb_py_sealed(c, hi)));
}

static const plb_py_def_t *const methods[] = {&fn_partition, &fn_points, &fn_boxes, &fn_regions,
                                              NULL};

static int zoltan_exec(PyObject *module)
{
    PLB_PASS(PyArray_ImportNumPyAPI() < 0);
    PyObject *mpi = PyImport_ImportModule("mpi4py.MPI");
    const int ret = mpi == NULL || check_mpi(mpi) != 0 ? -1 : 0;
    Py_XDECREF(mpi);
    if (ret != 0 || plb_py_add_functions(module, methods) != 0) {
        return -1;
    }
    return plb_py_add_library(module, &plb_zoltan);
}

PLB_PY_MODULE(_zoltan, "Zoltan for pylb.", zoltan_exec)
