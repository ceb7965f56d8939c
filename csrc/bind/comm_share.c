/* Python binding of csrc/comm/share.h: work lent within a step; linked into pylb._mpi. */
#include "bind/convert.h"
#include "bind/mpi_comm.h"
#include "bind/rooms.h"

#include "base/mem.h"
#include "comm/comm.h"

typedef struct share {
    PLB_PY_HEAD plb_sharer_t *core;
    plb_patience_t patience;
    /* of the call under way */
    plb_py_call_t *call;
    int64_t row_bytes;
    PyObject *own, *pack, *guest, *take; /* borrowed */
    PyObject *type, *value, *traceback;  /* the first exception of a callback, owned */
} share_t;

/* Call a function of the program; the result, or NULL and a code that ends the call.  Further
 * callbacks must not see the exception, so it is kept here. */
static PyObject *call_back(share_t *self, PyObject *function, PyObject *args)
{
    PyObject *out = args != NULL ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(args);
    if (out == NULL) {
        PyObject *found[3];
        PyErr_Fetch(&found[0], &found[1], &found[2]);
        if (self->type == NULL) {
            self->type = found[0];
            self->value = found[1];
            self->traceback = found[2];
        } else {
            Py_XDECREF(found[0]);
            Py_XDECREF(found[1]);
            Py_XDECREF(found[2]);
        }
    }
    return out;
}

static PyObject *rows_of(int64_t first, const int64_t *row, int64_t n)
{
    if (row != NULL) {
        return plb_py_copy(row, n, NPY_INT64);
    }
    PyObject *from = PyLong_FromLongLong(first), *to = PyLong_FromLongLong(first + n);
    PyObject *out = from != NULL && to != NULL ? PySlice_New(from, to, NULL) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    return out;
}

static int own(void *arg, int64_t first, const int64_t *row, int64_t n, plb_err_t *err)
{
    share_t *self = arg;
    (void)err;
    PyEval_RestoreThread(self->call->state);
    PyObject *out = call_back(self, self->own, Py_BuildValue("(N)", rows_of(first, row, n)));
    Py_XDECREF(out);
    self->call->state = PyEval_SaveThread();
    return out != NULL ? PLB_OK : PLB_ERR_CALLBACK;
}

static int pack(void *arg, const int64_t *row, int64_t n, char *to, plb_err_t *err)
{
    share_t *self = arg;
    const int64_t bytes = n * self->row_bytes;
    (void)err;
    PyEval_RestoreThread(self->call->state);
    PyObject *view = PyMemoryView_FromMemory(to, bytes, PyBUF_WRITE);
    PyObject *out = call_back(self, self->pack, Py_BuildValue("NN", rows_of(0, row, n), view));
    Py_XDECREF(out);
    self->call->state = PyEval_SaveThread();
    return out != NULL ? PLB_OK : PLB_ERR_CALLBACK;
}

/* The function returns (failed, bytes); it catches the program's exceptions. */
static int guest(void *arg, const char *rows, int64_t n, char **answer, int64_t *bytes,
                 plb_err_t *err)
{
    share_t *self = arg;
    const int64_t size = n * self->row_bytes;
    int failed = 1;
    PyEval_RestoreThread(self->call->state);
    PyObject *view = PyMemoryView_FromMemory((char *)rows, size, PyBUF_READ);
    PyObject *out = call_back(self, self->guest, Py_BuildValue("NL", view, (long long)n)), *data;
    if (out != NULL && PyArg_ParseTuple(out, "pS", &failed, &data)) {
        *bytes = PyBytes_GET_SIZE(data);
        *answer = plb_malloc((size_t)*bytes, 1);
        if (*answer != NULL) {
            memcpy(*answer, PyBytes_AS_STRING(data), (size_t)*bytes);
        } else {
            failed = 1;
        }
    }
    Py_XDECREF(out);
    PyErr_Clear();
    self->call->state = PyEval_SaveThread();
    return failed ? PLB_FAIL(err, PLB_ERR_CALLBACK, "rows of another rank failed") : PLB_OK;
}

static int take(void *arg, int from, bool failed, const int64_t *row, int64_t n,
                const char *answer, int64_t bytes, plb_err_t *err)
{
    share_t *self = arg;
    (void)err;
    PyEval_RestoreThread(self->call->state);
    PyObject *view = PyMemoryView_FromMemory((char *)answer, bytes, PyBUF_READ);
    PyObject *out = call_back(self, self->take,
                              Py_BuildValue("iiNN", from, (int)failed, rows_of(0, row, n), view));
    Py_XDECREF(out);
    self->call->state = PyEval_SaveThread();
    return out != NULL ? PLB_OK : PLB_ERR_CALLBACK;
}

#define X(name, unit, help) PLB_PY_FIELD(plb_share_figures_t, name),
static const plb_py_field_t fields[] = {PLB_SHARE_FIGURES(X){0}};
#undef X

PLB_PY_DEF(
    share, call, "n row_bytes cost:? chunk failed own pack guest take",
    "Compute all rows of all ranks; collective.  Returns the figures of the call, a tuple.\n"
    "own(rows): compute; pack(rows, out): write to a memoryview; guest(data, n): compute\n"
    "rows of another rank, and return (failed, bytes); take(rank, failed, rows, data).\n"
    "failed: this rank has wrong arguments; then all ranks fail.")
{
    plb_shared_rows_t rows = {.arg = self, .own = own, .pack = pack, .guest = guest, .take = take};
    plb_share_figures_t figures;
    bool failed;
    PLB_PASS(PLB_READ(c, PLB_ONE(&rows.n), PLB_ONE(&rows.row_bytes), PLB_MANY(&rows.cost, &rows.n),
                      PLB_ONE(&rows.chunk), PLB_ONE(&failed), PLB_ONE(&self->own),
                      PLB_ONE(&self->pack), PLB_ONE(&self->guest), PLB_ONE(&self->take)));
    PLB_PASS(plb_py_refuse(self->core == NULL, PyExc_RuntimeError, "the ranks were freed"));
    rows.failed = failed ? PLB_ERR_VALUE : PLB_OK;
    self->call = c;
    self->row_bytes = rows.row_bytes;
    const int ret = PLB_PY_UNLOCKED(
        c, plb_share_call(self->core, &rows, plb_py_tick, &c->state, &figures, &c->err));
    if (self->type != NULL) {
        PyErr_Restore(self->type, self->value, self->traceback);
        self->type = self->value = self->traceback = NULL;
    }
    PLB_PASS(ret);
    return plb_py_answer(c, plb_py_tuple(fields, &figures));
}

PLB_PY_DEF(share, holds, "",
           "Whether this call needs no `call`: each rank just computes its rows.")
{
    PLB_PASS(plb_py_refuse(self->core == NULL, PyExc_RuntimeError, "the ranks were freed"));
    return plb_py_answer(c, PyBool_FromLong(plb_share_holds(self->core)));
}

PLB_PY_DEF(share, leave, "",
           "Say that this rank has failed; the others learn it when they next decide.")
{
    if (self->core != NULL) {
        plb_share_leave(self->core, PLB_ERR_CALLBACK);
    }
    return PLB_OK;
}

PLB_PY_DEF(share, look, "ends",
           "While this rank waits elsewhere: leave if others have long waited for it in call().\n"
           "ends: leave in any case.")
{
    bool ends;
    PLB_PASS(PLB_READ(c, PLB_ONE(&ends)));
    if (self->core != NULL) {
        plb_share_look(self->core, ends);
    }
    return PLB_OK;
}

PLB_PY_DEF(share, seconds, "",
           "Seconds of each row in the most recent call, at the speed of this rank.")
{
    int64_t n = 0;
    const double none = 0.0; /* plb_py_copy makes None of NULL */
    PLB_PASS(plb_py_refuse(self->core == NULL, PyExc_RuntimeError, "the ranks were freed"));
    const double *seconds = plb_share_seconds(self->core, &n);
    return plb_py_answer(c, plb_py_copy(n > 0 ? seconds : &none, n, NPY_DOUBLE));
}

PLB_PY_DEF(share, free, "", "Free the duplicate communicator.  Collective.")
{
    if (self->core != NULL) {
        plb_share_close(self->core);
        plb_share_free(self->core);
        self->core = NULL;
    }
    return PLB_OK;
}

static void say_late(void *arg)
{
    (void)arg;
    PyGILState_STATE state = PyGILState_Ensure();
    PySys_WriteStderr("pylb: a rank has waited 10 s for the other ranks in share()\n");
    PyGILState_Release(state);
}

static int share_init(share_t *self, plb_py_call_t *c)
{
    PyObject *user;
    MPI_Comm handle;
    plb_share_options_t options = {0};
    PLB_PASS(PLB_READ(c, PLB_ONE(&user), PLB_ONE(&options.lend), PLB_ONE(&options.reactive),
                      PLB_ONE(&options.beta)));
    PLB_PASS(plb_py_mpi_comm(user, &handle));
    self->patience = (plb_patience_t){say_late, NULL};
    return plb_share_new(&self->core, handle, &options, &self->patience, &c->err);
}

/* Does not free the communicator: that is collective, and Python may call this at any time. */
static void share_fini(share_t *self)
{
    plb_share_free(self->core);
}

static const plb_py_def_t *const share_methods[] = {
    &share_call, &share_holds, &share_leave, &share_look, &share_seconds, &share_free, NULL};

PLB_PY_TYPE(share, "pylb._mpi.Share", "comm lend reactive beta",
            "Lets the ranks of an mpi4py communicator compute rows for each other.", )

const plb_py_room_t plb_py_comm_share = {NULL, {&share_spec}, NULL};
