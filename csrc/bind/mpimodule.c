/* pylb._mpi: collective steps on pylb's own duplicate of a communicator of mpi4py. */
#define PLB_PY_MAIN
#include "bind/views.h"

#include <mpi4py/mpi4py.h>

#include "comm/reduction.h"
#include "comm/step.h"

typedef struct comm_object {
    PyObject_HEAD plb_comm_t core;
    plb_step_t step;
    plb_reducer_t reducer;
    Py_buffer *held; /* the parts that are being sent */
    Py_ssize_t n_held;
    PyObject *received; /* list of (source, [parts]) of the step under way */
    PyThreadState *state;
} comm_object_t;

/* ---- memory for parcels that arrive -------------------------------------------------------- */

/* (source, [array, ...]); memory comes through NumPy, whose allocator knows large pages. */
static int take_locked(comm_object_t *self, plb_parcel_t *p)
{
    PyObject *parts = PyList_New(p->n);
    for (int i = 0; parts != NULL && i < p->n; i++) {
        npy_intp n = (npy_intp)p->size[i];
        PyObject *a = PyArray_SimpleNew(1, &n, NPY_UINT8);
        if (a == NULL) {
            Py_CLEAR(parts);
            break;
        }
        PyList_SET_ITEM(parts, i, a);
        p->part[i] = PyArray_DATA((PyArrayObject *)a);
    }
    PyObject *entry = parts ? Py_BuildValue("iN", p->peer, parts) : NULL;
    const int failed = entry == NULL || PyList_Append(self->received, entry) != 0;
    Py_XDECREF(entry);
    return failed;
}

static int take(void *arg, plb_parcel_t *parcel, plb_err_t *err)
{
    comm_object_t *self = arg;
    PyEval_RestoreThread(self->state);
    const int failed = take_locked(self, parcel);
    self->state = PyEval_SaveThread();
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "no memory for a parcel") : PLB_OK;
}

/* ---- a step --------------------------------------------------------------------------------- */

static void release_held(comm_object_t *self)
{
    for (Py_ssize_t i = 0; i < self->n_held; i++) {
        PyBuffer_Release(&self->held[i]);
    }
    plb_free(self->held);
    self->held = NULL;
    self->n_held = 0;
}

/* Hold the parts of all sends, a list of (rank, [buffers]); returns their number or -1. */
static Py_ssize_t hold_parts(comm_object_t *self, PyObject *sends)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sends); i++) {
        PyObject *parts;
        int rank;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(sends, i), "iO!", &rank, &PyList_Type, &parts)) {
            return -1;
        }
        total += PyList_GET_SIZE(parts);
    }
    self->held = plb_malloc((size_t)total, sizeof *self->held);
    if (self->held == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sends); i++) {
        PyObject *parts = PyTuple_GET_ITEM(PyList_GET_ITEM(sends, i), 1);
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(parts); j++) {
            if (PyObject_GetBuffer(PyList_GET_ITEM(parts, j), &self->held[self->n_held],
                                   PyBUF_SIMPLE) != 0) {
                return -1;
            }
            self->n_held++;
        }
    }
    return total;
}

/* The parcels of the parts that are held; `part` and `size` are filled. */
static void fill_parcels(comm_object_t *self, PyObject *sends, plb_parcel_t *parcel, void **part,
                         int64_t *size)
{
    for (Py_ssize_t i = 0; i < self->n_held; i++) {
        part[i] = self->held[i].buf;
        size[i] = self->held[i].len;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sends); i++) {
        PyObject *entry = PyList_GET_ITEM(sends, i);
        const int n = (int)PyList_GET_SIZE(PyTuple_GET_ITEM(entry, 1));
        parcel[i] = (plb_parcel_t){(int)PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)), n, part, size};
        part += n;
        size += n;
    }
}

static int begin(comm_object_t *self, PyObject *args)
{
    PyObject *sample, *sends;
    plb_stats_t mine;
    plb_parcel_t *parcel = NULL;
    void **part = NULL;
    int64_t *size = NULL;
    plb_err_t err_ = {0, ""}, *err = &err_;
    int ret = PLB_OK;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &sample, &PyList_Type, &sends) ||
        plb_py_sample(sample, self->core.rank, &mine) != 0) {
        return -1;
    }
    if (self->step.phase != PLB_STEP_IDLE) {
        ret = PLB_FAIL(err, PLB_ERR_STATE, "a collective step is already under way");
        goto out;
    }
    Py_XSETREF(self->received, PyList_New(0));
    const Py_ssize_t n = PyList_GET_SIZE(sends), total = hold_parts(self, sends);
    if (self->received == NULL || total < 0) {
        ret = PLB_ERR_CALLBACK;
        goto out;
    }
    PLB_NEW(parcel, n);
    PLB_NEW(part, total);
    PLB_NEW(size, total);
    fill_parcels(self, sends, parcel, part, size);
    ret = plb_step_begin(&self->step, &mine, parcel, (int)n, err);
out:
    plb_free(parcel);
    plb_free(part);
    plb_free(size);
    if (ret != PLB_OK) {
        plb_py_raise(ret, err);
    }
    return ret == PLB_OK ? 0 : -1;
}

/* (stats, received), or None when the time is over first. */
static PyObject *wait_for(comm_object_t *self, int64_t timeout_ns)
{
    plb_err_t err = {0, ""};
    bool done = false;
    if (self->step.phase == PLB_STEP_IDLE) {
        return plb_py_raise(PLB_FAIL(&err, PLB_ERR_STATE, "no collective step is under way"),
                            &err);
    }
    self->state = PyEval_SaveThread();
    const int ret = plb_step_wait(&self->step, timeout_ns, plb_py_tick, &self->state, &done, &err);
    PyEval_RestoreThread(self->state);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    if (!done) {
        Py_RETURN_NONE;
    }
    release_held(self);
    PyObject *received = self->received;
    self->received = NULL;
    PyObject *stats = plb_py_stats(&self->step.all);
    if (stats == NULL) {
        Py_XDECREF(received);
        return NULL;
    }
    return Py_BuildValue("NN", stats, received);
}

PyDoc_STRVAR(step_doc,
             "step($self, sample, sends, /)\n--\n\n"
             "One collective step: begin and wait.  Returns (record, received): the merged\n"
             "statistics and a list of (source, [uint8 arrays]).");
static PyObject *comm_step(PyObject *object, PyObject *args)
{
    comm_object_t *self = (comm_object_t *)object;
    return begin(self, args) == 0 ? wait_for(self, -1) : NULL;
}

PyDoc_STRVAR(begin_doc, "begin($self, sample, sends, /)\n--\n\n"
                        "Begin a collective step; sends is a list of (rank, [buffers]), at most\n"
                        "one for each rank.");
static PyObject *comm_begin(PyObject *object, PyObject *args)
{
    if (begin((comm_object_t *)object, args) != 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(wait_doc, "wait($self, seconds, /)\n--\n\n"
                       "Wait for the step under way: (record, received), or None when the time\n"
                       "is over first.");
static PyObject *comm_wait(PyObject *object, PyObject *seconds)
{
    const double s = PyFloat_AsDouble(seconds);
    return PyErr_Occurred() ? NULL : wait_for((comm_object_t *)object, (int64_t)(1e9 * s));
}

/* ---- plain collectives ---------------------------------------------------------------------- */

PyDoc_STRVAR(bcast_doc, "bcast($self, array, root, /)\n--\n\n"
                        "Fill `array` (contiguous, the same size everywhere) with that of root.");
static PyObject *comm_bcast(PyObject *object, PyObject *args)
{
    comm_object_t *self = (comm_object_t *)object;
    Py_buffer view;
    plb_err_t err = {0, ""};
    int root;
    if (!PyArg_ParseTuple(args, "w*i", &view, &root)) {
        return NULL;
    }
    int ret;
    Py_BEGIN_ALLOW_THREADS ret = plb_comm_bcast(&self->core, view.buf, view.len, root, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&view);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

/* Bytes of each rank, cut out of `all`. */
static PyObject *cut(const char *all, const int64_t *size, int n)
{
    PyObject *out = PyList_New(n);
    for (int r = 0; out != NULL && r < n; r++) {
        PyObject *b = PyBytes_FromStringAndSize(all, (Py_ssize_t)size[r]);
        if (b == NULL) {
            Py_CLEAR(out);
            break;
        }
        PyList_SET_ITEM(out, r, b);
        all += size[r];
    }
    return out;
}

PyDoc_STRVAR(
    allgather_doc,
    "allgather($self, data, /)\n--\n\nEach rank's bytes, a list; 2 GiB at most together.");
static PyObject *comm_allgather(PyObject *object, PyObject *arg)
{
    comm_object_t *self = (comm_object_t *)object;
    Py_buffer mine;
    plb_err_t err_ = {0, ""}, *err = &err_;
    PyObject *out = NULL;
    int64_t *size = NULL, total = 0;
    char *all = NULL;
    int ret = PLB_OK;
    if (PyObject_GetBuffer(arg, &mine, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS PLB_NEW(size, self->core.size);
    if ((ret = plb_comm_sizes(&self->core, mine.len, size, err)) != PLB_OK) {
        goto out;
    }
    for (int r = 0; r < self->core.size; r++) {
        total += size[r];
    }
    PLB_NEW(all, total);
    ret = plb_comm_allgather(&self->core, mine.buf, size, all, err);
out:;
    Py_END_ALLOW_THREADS out =
        ret == PLB_OK ? cut(all, size, self->core.size) : plb_py_raise(ret, err);
    plb_free(all);
    plb_free(size);
    PyBuffer_Release(&mine);
    return out;
}

/* ---- reductions that are under way --------------------------------------------------------- */

static void drop_comm(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

PyDoc_STRVAR(reduction_doc,
             "reduction($self, depth, /)\n--\n\n"
             "For pylb._core.AtSync: nonblocking reductions, `depth` of them at once, on two\n"
             "communicators of their own.  Collective the first time; one user at a time.");
static PyObject *comm_reduction(PyObject *object, PyObject *arg)
{
    comm_object_t *self = (comm_object_t *)object;
    plb_err_t err = {0, ""};
    const long depth = PyLong_AsLong(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    int ret;
    Py_BEGIN_ALLOW_THREADS ret = plb_reducer_reserve(&self->reducer, (int)depth, &err);
    Py_END_ALLOW_THREADS if (ret != PLB_OK)
    {
        return plb_py_raise(ret, &err);
    }
    PyObject *capsule = PyCapsule_New(&self->reducer.face, PLB_PY_REDUCTION, drop_comm);
    if (capsule != NULL && PyCapsule_SetContext(capsule, Py_NewRef(object)) != 0) {
        Py_DECREF(object);
        Py_CLEAR(capsule);
    }
    return capsule;
}

/* ---- the type ------------------------------------------------------------------------------- */

static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"comm", NULL};
    PyObject *user;
    plb_err_t err = {0, ""};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Comm", names, &user) ||
        import_mpi4py() != 0) {
        return NULL;
    }
    MPI_Comm *handle = PyMPIComm_Get(user);
    comm_object_t *self = handle ? (comm_object_t *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL) {
        return NULL;
    }
    const int ret = plb_comm_init(&self->core, *handle, &err);
    plb_step_init(&self->step, &self->core, take, self);
    plb_reducer_init(&self->reducer, &self->core);
    if (ret != PLB_OK) {
        Py_DECREF(self);
        return plb_py_raise(ret, &err);
    }
    return (PyObject *)self;
}

/* The duplicate is freed by free() alone: that is collective, and garbage is collected any time.
 */
static void comm_dealloc(PyObject *object)
{
    comm_object_t *self = (comm_object_t *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->step.phase == PLB_STEP_IDLE) { /* else MPI still reads these */
        release_held(self);
        plb_step_free(&self->step);
    }
    if (self->reducer.begun == self->reducer.taken) {
        plb_reducer_free(&self->reducer);
    }
    Py_XDECREF(self->received);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *comm_rank(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((comm_object_t *)object)->core.rank);
}

static PyObject *comm_size(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((comm_object_t *)object)->core.size);
}

static PyObject *comm_pending(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((comm_object_t *)object)->step.phase != PLB_STEP_IDLE);
}

static PyObject *comm_comm(PyObject *object, void *unused)
{
    (void)unused;
    return PyMPIComm_New(((comm_object_t *)object)->core.comm);
}

PyDoc_STRVAR(free_doc, "free($self, /)\n--\n\nFree the duplicate.  Collective; nothing is under way.");
static PyObject *comm_free(PyObject *object, PyObject *unused)
{
    (void)unused;
    plb_comm_free(&((comm_object_t *)object)->core);
    Py_RETURN_NONE;
}

static PyMethodDef comm_methods[] = {
    {"step", comm_step, METH_VARARGS, step_doc},
    {"begin", comm_begin, METH_VARARGS, begin_doc},
    {"wait", comm_wait, METH_O, wait_doc},
    {"bcast", comm_bcast, METH_VARARGS, bcast_doc},
    {"allgather", comm_allgather, METH_O, allgather_doc},
    {"reduction", comm_reduction, METH_O, reduction_doc},
    {"free", comm_free, METH_NOARGS, free_doc},
    {0},
};

static PyGetSetDef comm_getset[] = {
    {"comm", comm_comm, NULL, "The duplicate, as mpi4py's; not to be freed.", NULL},
    {"rank", comm_rank, NULL, "This rank.", NULL},
    {"size", comm_size, NULL, "Number of ranks.", NULL},
    {"pending", comm_pending, NULL, "Whether a step is under way.", NULL},
    {0},
};

PyDoc_STRVAR(comm_doc, "Comm(comm)\n--\n\n"
                       "pylb's own duplicate of a communicator of mpi4py.  Collective.");
static PyType_Slot comm_slots[] = {
    {Py_tp_doc, (void *)comm_doc}, {Py_tp_new, comm_new},       {Py_tp_dealloc, comm_dealloc},
    {Py_tp_methods, comm_methods}, {Py_tp_getset, comm_getset}, {0, NULL},
};

static PyType_Spec comm_spec = {
    .name = "pylb._mpi.Comm",
    .basicsize = sizeof(comm_object_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = comm_slots,
};

PyDoc_STRVAR(library_doc, "library_version()\n--\n\nThe MPI that this module is linked with.");
static PyObject *library_version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    return PyUnicode_FromStringAndSize(text, n);
}

static PyMethodDef methods[] = {
    {"library_version", library_version, METH_NOARGS, library_doc},
    {0},
};

static int mpi_exec(PyObject *module)
{
    if (PyArray_ImportNumPyAPI() < 0) {
        return -1;
    }
    PyObject *type = PyType_FromModuleAndSpec(module, &comm_spec, NULL);
    const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
    Py_XDECREF(type);
    return failed || PyModule_AddFunctions(module, methods) != 0 ||
                   plb_py_add_exchange(module) != 0
               ? -1
               : plb_py_add_settle(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, mpi_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pylb._mpi",
    .m_doc = "Collective steps over MPI.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__mpi(void);
PyMODINIT_FUNC PyInit__mpi(void)
{
    return PyModuleDef_Init(&definition);
}
