/* What follows a partition over ranks; linked into pylb._mpi. */
#include "bind/views.h"

#include <mpi4py/mpi4py.h>

#include "partition/ranks/settle.h"

typedef struct arguments {
    PyObject *comm, *part, *old, *dist, *ids, *weight, *size, *share, *fixed, *kept_part,
        *kept_old, *kept;
} arguments_t;

/* The handle; mpi4py's table comes with the first one. */
static MPI_Comm *ready(PyObject *comm)
{
    static bool imported = false;
    imported = imported || import_mpi4py() == 0;
    return imported ? PyMPIComm_Get(comm) : NULL;
}

static int fill(plb_py_held_t *held, const arguments_t *a, plb_settle_t *in)
{
    plb_new_parts_t *p = &in->parts;
    plb_new_names_t *names = &in->names;
    const int64_t n = p->n = a->part == Py_None ? 0 : (int64_t)PyObject_Size(a->part);
    MPI_Comm *comm = ready(a->comm);
    if (comm == NULL) {
        return -1;
    }
    in->comm = *comm;
    int rank = 0;
    MPI_Comm_size(in->comm, &p->n_ranks);
    MPI_Comm_rank(in->comm, &rank);
    p->home = plb_own_part(rank, p->n_ranks, p->n_parts);
    names->n_parts = p->n_parts;
    names->n_ranks = p->n_ranks;
    if (plb_py_view(held, a->dist, "dist", NPY_INT64, p->n_ranks + 1, &in->dist) != 0) {
        return -1;
    }
    p->first = in->dist[rank];
    names->n_kept = a->kept == Py_None ? 0 : (int64_t)PyObject_Size(a->kept);
    if (plb_py_view(held, a->part, "part", NPY_INT32, n, &p->part) ||
        plb_py_view(held, a->old, "old", NPY_INT32, n, &p->old) ||
        plb_py_view(held, a->ids, "ids", NPY_INT64, n, &p->ids) ||
        plb_py_view(held, a->weight, "weight", NPY_FLOAT64, n * in->n_weights, &in->weight) ||
        plb_py_view(held, a->size, "size", NPY_FLOAT64, n, &in->size) ||
        plb_py_view(held, a->share, "share", NPY_FLOAT64, p->n_parts, &names->share) ||
        plb_py_view(held, a->fixed, "fixed", NPY_BOOL, p->n_parts, &names->fixed) ||
        plb_py_view(held, a->kept_part, "kept", NPY_INT32, names->n_kept, &names->part) ||
        plb_py_view(held, a->kept_old, "kept", NPY_INT32, names->n_kept, &names->old) ||
        plb_py_view(held, a->kept, "kept", NPY_FLOAT64, names->n_kept, &names->kept)) {
        return -1;
    }
    return 0;
}

/* Objects that come stand in no row of this rank's arrays: n times the same -1. */
static PyObject *nowhere(npy_intp n)
{
    static int64_t none = -1;
    npy_intp stride = 0;
    return PyArray_New(&PyArray_Type, 1, &n, NPY_INT64, &stride, &none, 0, 0, NULL);
}

/* Takes the arrays over. */
static PyObject *result(const plb_settle_t *in, plb_settled_t *out)
{
    const npy_intp n = (npy_intp)in->parts.n, gone = (npy_intp)out->out.n;
    const npy_intp come = (npy_intp)out->n_in, k = in->parts.n_parts;
    plb_moves_t *go = &out->out;
    PyObject *name = out->name == NULL ? Py_NewRef(Py_None) : plb_py_take(out->name, k, NPY_INT32);
    PyObject *made = Py_BuildValue(
        "NNN(NNNN)(NNNN)Ndd", name, plb_py_take(out->part, n, NPY_INT32),
        plb_py_take(go->where, n, NPY_INT32), plb_py_take(go->id, gone, NPY_INT64),
        plb_py_take(go->row, gone, NPY_INT64), plb_py_take(go->rank, gone, NPY_INT32),
        plb_py_take(go->part, gone, NPY_INT32), plb_py_take(out->id, come, NPY_INT64),
        nowhere(come), plb_py_take(out->rank, come, NPY_INT32),
        plb_py_take(out->new_part, come, NPY_INT32),
        plb_py_take(out->sums, k * (1 + in->n_weights), NPY_FLOAT64), out->moved, out->volume);
    plb_free(go->packed);
    plb_free(go->count);
    return made;
}

PyDoc_STRVAR(
    settle_doc,
    "settle(comm, parts, part, old, dist, ids, n_weights, weight, size, rename, share,\n"
    "       fixed, kept_part, kept_old, kept, /)\n--\n\n"
    "(new name of each part or None; part and rank of each object; id, row, rank, part of those\n"
    "that go; the same of those that come; objects and weights of each part; objects that\n"
    "change their part and their sizes, in all).  Collective; csrc/mpi/settle.h.");
static PyObject *settle(PyObject *module, PyObject *args)
{
    (void)module;
    arguments_t a;
    plb_settle_t in = {0};
    int rename;
    if (!PyArg_ParseTuple(args, "OiOOOOiOOpOOOOO", &a.comm, &in.parts.n_parts, &a.part, &a.old,
                          &a.dist, &a.ids, &in.n_weights, &a.weight, &a.size, &rename, &a.share,
                          &a.fixed, &a.kept_part, &a.kept_old, &a.kept)) {
        return NULL;
    }
    plb_err_t err = {0, ""};
    plb_py_held_t held = {0};
    plb_settled_t out = {0};
    int ret = PLB_ERR_CALLBACK;
    in.rename = rename;
    if (fill(&held, &a, &in) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_settle(&in, &out, &err);
        Py_END_ALLOW_THREADS;
    }
    plb_py_release(&held);
    return ret != PLB_OK ? plb_py_raise(ret, &err) : result(&in, &out);
}

static PyMethodDef methods[] = {
    {"settle", settle, METH_VARARGS, settle_doc},
    {0},
};

int plb_py_add_settle(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
