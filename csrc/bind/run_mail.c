/* Room run: packs messages between objects for one rank.  Small plain arrays are packed as
 * bytes, which takes a tenth of the time of pickle; other data are left to pickle. */
#include "bind/rooms.h"

typedef struct head {
    int64_t target, source;
    int32_t type; /* NumPy type; OTHER: the data are the next item of the pickled list */
    int32_t ndim;
    int64_t fortran; /* layout of an array */
} head_t;

enum { OTHER = -1 };

static int64_t padded(int64_t n)
{
    return (n + 7) & ~(int64_t)7;
}

/* Whether it is a small contiguous array of numbers. */
static bool is_plain(PyObject *data, npy_intp most)
{
    PyArrayObject *a = (PyArrayObject *)data;
    return PyArray_CheckExact(data) && PyArray_NBYTES(a) <= most &&
           (PyTypeNum_ISNUMBER(PyArray_TYPE(a)) || PyTypeNum_ISBOOL(PyArray_TYPE(a))) &&
           PyArray_ISNOTSWAPPED(a) && (PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a));
}

/* A (target, source, data) tuple; 0, or -1 with an exception. */
static int read_message(PyObject *message, head_t *head, PyObject **data)
{
    if (!PyTuple_Check(message) || PyTuple_GET_SIZE(message) != 3) {
        PyErr_SetString(PyExc_TypeError, "messages: expected (target, source, data)");
        return -1;
    }
    head->target = PyLong_AsLongLong(PyTuple_GET_ITEM(message, 0));
    head->source = PyLong_AsLongLong(PyTuple_GET_ITEM(message, 1));
    *data = PyTuple_GET_ITEM(message, 2);
    return PyErr_Occurred() ? -1 : 0;
}

static int64_t wire_size(PyObject *messages, npy_intp most)
{
    int64_t size = sizeof(int64_t);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(messages); i++) {
        head_t head;
        PyObject *data;
        if (read_message(PyList_GET_ITEM(messages, i), &head, &data) != 0) {
            return -1;
        }
        size += sizeof head;
        if (is_plain(data, most)) {
            PyArrayObject *a = (PyArrayObject *)data;
            size += 8 * PyArray_NDIM(a) + padded(PyArray_NBYTES(a));
        }
    }
    return size;
}

static char *put(char *to, const void *from, int64_t n)
{
    memcpy(to, from, (size_t)n);
    return to + n;
}

static char *put_array(char *to, head_t *head, PyArrayObject *a)
{
    head->type = PyArray_TYPE(a);
    head->ndim = PyArray_NDIM(a);
    head->fortran = !PyArray_IS_C_CONTIGUOUS(a);
    const int64_t n = PyArray_NBYTES(a);
    to = put(to, head, sizeof *head);
    for (int k = 0; k < head->ndim; k++) {
        const int64_t dim = PyArray_DIM(a, k);
        to = put(to, &dim, sizeof dim);
    }
    put(to, PyArray_DATA(a), n);
    memset(to + n, 0, (size_t)(padded(n) - n));
    return to + padded(n);
}

PyDoc_STRVAR(mail_pack_doc,
             "mail_pack(messages, most, /)\n--\n\n"
             "Pack a list of (target, source, data). Returns bytes, and a list of the data that\n"
             "are not plain arrays of at most `most` bytes.");
static PyObject *mail_pack(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *messages, *wire = NULL, *others = PyList_New(0);
    Py_ssize_t most;
    if (others == NULL || !PyArg_ParseTuple(args, "O!n", &PyList_Type, &messages, &most)) {
        goto out;
    }
    const int64_t size = wire_size(messages, most), n = PyList_GET_SIZE(messages);
    if (size < 0 || (wire = PyBytes_FromStringAndSize(NULL, size)) == NULL) {
        goto out;
    }
    char *to = put(PyBytes_AS_STRING(wire), &n, sizeof n);
    for (Py_ssize_t i = 0; i < n; i++) {
        head_t head = {.type = OTHER};
        PyObject *data = NULL;
        read_message(PyList_GET_ITEM(messages, i), &head,
                     &data); /* cannot fail: it was read before */
        if (is_plain(data, most)) {
            to = put_array(to, &head, (PyArrayObject *)data);
        } else {
            to = put(to, &head, sizeof head);
            if (PyList_Append(others, data) != 0) {
                Py_CLEAR(wire);
                goto out;
            }
        }
    }
out:
    if (wire == NULL) {
        Py_XDECREF(others);
        return NULL;
    }
    return Py_BuildValue("NN", wire, others);
}

/* ---- unpacking ------------------------------------------------------------------------------ */

typedef struct reader {
    const char *at, *end;
} reader_t;

static int get(reader_t *self, void *to, int64_t n)
{
    if (n < 0 || n > self->end - self->at) {
        PyErr_SetString(PyExc_ValueError, "wire ends within a message");
        return -1;
    }
    memcpy(to, self->at, (size_t)n);
    self->at += n;
    return 0;
}

static PyObject *get_array(reader_t *self, const head_t *head)
{
    npy_intp dim[NPY_MAXDIMS] = {0};
    if (head->ndim < 0 || head->ndim > NPY_MAXDIMS) {
        PyErr_SetString(PyExc_ValueError, "wire has an array with too many dimensions");
        return NULL;
    }
    for (int k = 0; k < head->ndim; k++) {
        int64_t n;
        if (get(self, &n, sizeof n) != 0) {
            return NULL;
        }
        dim[k] = (npy_intp)n;
    }
    PyObject *a = PyArray_EMPTY(head->ndim, dim, head->type, head->fortran != 0);
    if (a == NULL) {
        return NULL;
    }
    const int64_t n = PyArray_NBYTES((PyArrayObject *)a);
    char rest[8];
    if (get(self, PyArray_DATA((PyArrayObject *)a), n) != 0 ||
        get(self, rest, padded(n) - n) != 0) {
        Py_CLEAR(a);
    }
    return a;
}

PyDoc_STRVAR(mail_unpack_doc, "mail_unpack(wire, others, /)\n--\n\n"
                              "Return the messages that mail_pack has packed, in order.");
static PyObject *mail_unpack(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer wire;
    PyObject *others, *out = NULL;
    if (!PyArg_ParseTuple(args, "y*O!", &wire, &PyList_Type, &others)) {
        return NULL;
    }
    reader_t reader = {wire.buf, (const char *)wire.buf + wire.len};
    int64_t n = 0, taken = 0;
    if (get(&reader, &n, sizeof n) != 0 || (out = PyList_New(0)) == NULL) {
        goto out;
    }
    for (int64_t i = 0; i < n; i++) {
        head_t head;
        PyObject *data = NULL;
        if (get(&reader, &head, sizeof head) == 0) {
            if (head.type != OTHER) {
                data = get_array(&reader, &head);
            } else if (taken < PyList_GET_SIZE(others)) {
                data = Py_NewRef(PyList_GET_ITEM(others, taken++));
            } else {
                PyErr_SetString(PyExc_ValueError, "others has fewer items than the wire needs");
            }
        }
        PyObject *message = data == NULL ? NULL
                                         : Py_BuildValue("LLN", (long long)head.target,
                                                         (long long)head.source, data);
        if (message == NULL || PyList_Append(out, message) != 0) {
            Py_XDECREF(message);
            Py_CLEAR(out);
            break;
        }
        Py_DECREF(message);
    }
out:
    PyBuffer_Release(&wire);
    return out;
}

static PyMethodDef methods[] = {
    {"mail_pack", mail_pack, METH_VARARGS, mail_pack_doc},
    {"mail_unpack", mail_unpack, METH_VARARGS, mail_unpack_doc},
    {0},
};

const plb_py_room_t plb_py_run_mail = {methods, {NULL}, NULL};
