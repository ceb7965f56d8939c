/* Python binding of csrc/partition/ranks/settle.h; linked into pylb._mpi. */
#include "bind/mpi_comm.h"
#include "partition/ranks/settle.h"

/* Return an array with n entries -1: an object that arrives has no row on this rank yet. */
static PyObject *nowhere(npy_intp n)
{
    static int64_t none = -1;
    npy_intp stride = 0;
    return PyArray_New(&PyArray_Type, 1, &n, NPY_INT64, &stride, &none, 0, 0, NULL);
}

static PyObject *result(const plb_settle_t *in, plb_settled_t *out)
{
    const npy_intp n = (npy_intp)in->parts.n, gone = (npy_intp)out->out.n;
    const npy_intp come = (npy_intp)out->n_in, k = in->parts.n_parts;
    plb_moves_t *go = &out->out;
    PyObject *name = plb_py_take(out->name, k, NPY_INT32);
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

PLB_PY_DEF(
    fn, settle,
    "comm * parts part:@? n_weights rename ... dist:@+ old:@? ids:@? weight:@? size:@? share:@? "
    "fixed:@? kept_part:@? kept_old:@? kept:@?",
    "Return (new number of each part, or None if none has changed; new part and rank of each\n"
    "object; (id, row, new rank, new part) of the objects that leave their part; (id, -1, old\n"
    "rank, new part) of the objects that come to parts of this rank; number of objects and\n"
    "sums of weights of each part; number and size of all objects that change their part).\n"
    "Collective; see csrc/partition/ranks/settle.h.")
{
    plb_settle_t in = {.parts = {.n = -1}};
    plb_new_parts_t *p = &in.parts;
    plb_new_names_t *names = &in.names;
    plb_settled_t out = {0};
    PyObject *user;
    int rank = 0;
    PLB_PASS(PLB_READ(c, PLB_ONE(&user), PLB_ONE(&p->n_parts), PLB_MANY(&p->part, &p->n),
                      PLB_ONE(&in.n_weights), PLB_ONE(&in.rename)));
    PLB_PASS(plb_py_mpi_comm(user, &in.comm));
    MPI_Comm_size(in.comm, &p->n_ranks);
    MPI_Comm_rank(in.comm, &rank);
    p->n = p->n < 0 ? 0 : p->n;
    p->home = plb_own_part(rank, p->n_ranks, p->n_parts);
    names->n_parts = p->n_parts;
    names->n_ranks = p->n_ranks;
    int64_t k = p->n_parts, ranks = p->n_ranks, weights = p->n * in.n_weights, kept = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&in.dist, &ranks), PLB_MANY(&p->old, &p->n),
                      PLB_MANY(&p->ids, &p->n), PLB_MANY(&in.weight, &weights),
                      PLB_MANY(&in.size, &p->n), PLB_MANY(&names->share, &k),
                      PLB_MANY(&names->fixed, &k), PLB_MANY(&names->part, &kept),
                      PLB_MANY(&names->old, &kept), PLB_MANY(&names->kept, &kept)));
    p->first = in.dist[rank];
    names->n_kept = names->kept == NULL ? 0 : kept;
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_settle(&in, &out, &c->err)));
    return plb_py_answer(c, result(&in, &out));
}

static const plb_py_def_t *const methods[] = {&fn_settle, NULL};

const plb_py_room_t plb_py_partition_settle = {methods, {NULL}, NULL};
