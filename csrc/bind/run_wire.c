/* Packs and unpacks the messages between objects (bind/wire.h). */
#include "bind/wire.h"

typedef struct head {
    int64_t target, source;
    int16_t kind; /* NumPy type of an array, or one of OTHER ... NOTHING below */
    int16_t ndim;
    int32_t more;  /* number of further targets of a multicast, whose keys follow the head with 8
                      bytes each. Negative: minus that number, and the receivers share the data */
    int64_t extra; /* for an array: 1 if its layout is that of Fortran; for frozen data: number of
                      bytes; for an integer: its value; for a float: its bits */
} head_t;

enum { OTHER = -1, FROZEN = -2, INTEGER = -3, REAL = -4, NOTHING = -5 };

static int64_t padded(int64_t n)
{
    return (n + 7) & ~(int64_t)7;
}

/* Whether `data` is a contiguous array of numbers with at most `most` bytes. */
static bool is_plain(PyObject *data, npy_intp most)
{
    PyArrayObject *a = (PyArrayObject *)data;
    return PyArray_CheckExact(data) && PyArray_NBYTES(a) <= most &&
           (PyTypeNum_ISNUMBER(PyArray_TYPE(a)) || PyTypeNum_ISBOOL(PyArray_TYPE(a))) &&
           PyArray_ISNOTSWAPPED(a) && (PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a));
}

/* Return the head of a letter; *n_bytes: size of the packed data that follow the head. */
static head_t head_of(const plb_letter_t *letter, npy_intp most, const PyTypeObject *frozen,
                      int64_t *n_bytes)
{
    PyObject *data = letter->data;
    head_t head = {letter->target, letter->source, OTHER, 0, 0, 0};
    *n_bytes = 0;
    if (PyFloat_CheckExact(data)) {
        const double x = PyFloat_AS_DOUBLE(data);
        head.kind = REAL;
        memcpy(&head.extra, &x, sizeof x);
    } else if (PyLong_CheckExact(data)) {
        int overflow = 0;
        head.extra = PyLong_AsLongLongAndOverflow(data, &overflow);
        head.kind = overflow == 0 ? INTEGER : OTHER;
    } else if (data == Py_None) {
        head.kind = NOTHING;
    } else if (Py_TYPE(data) == frozen) {
        head.kind = FROZEN;
        head.extra = PyBytes_GET_SIZE(data);
        *n_bytes = padded(head.extra);
    } else if (is_plain(data, most)) {
        PyArrayObject *a = (PyArrayObject *)data;
        head.kind = (int16_t)PyArray_TYPE(a);
        head.ndim = (int16_t)PyArray_NDIM(a);
        head.extra = !PyArray_IS_C_CONTIGUOUS(a);
        *n_bytes = 8 * head.ndim + padded(PyArray_NBYTES(a));
    }
    return head;
}

static char *put(char *to, const void *from, int64_t n)
{
    memcpy(to, from, (size_t)n);
    return to + n;
}

static char *put_padded(char *to, const void *from, int64_t n)
{
    to = put(to, from, n);
    memset(to, 0, (size_t)(padded(n) - n));
    return to + (padded(n) - n);
}

static char *put_array(char *to, PyArrayObject *a)
{
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        const int64_t dim = PyArray_DIM(a, k);
        to = put(to, &dim, sizeof dim);
    }
    return put_padded(to, PyArray_DATA(a), PyArray_NBYTES(a));
}

/* Return the end of the letters that belong to the same message as letter[index[i]]. */
static int64_t end_of(const plb_letter_t *letter, const int32_t *index, int64_t i, int64_t n)
{
    int64_t end = i + 1;
    while (end < n && plb_same_cast(&letter[index[end - 1]], &letter[index[end]])) {
        end++;
    }
    return end;
}

PyObject *plb_wire_pack(const plb_letter_t *letter, const int32_t *index, int64_t n, npy_intp most,
                        PyTypeObject *frozen, PyObject *others, int64_t *messages)
{
    int64_t heads = 0, size = sizeof heads, bytes;
    for (int64_t i = 0, end; i < n; i = end, heads++) {
        end = end_of(letter, index, i, n);
        head_of(&letter[index[i]], most, frozen, &bytes);
        size += (int64_t)sizeof(head_t) + 8 * (end - i - 1) + bytes;
    }
    PyObject *wire = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    char *to = wire != NULL ? put(PyBytes_AS_STRING(wire), &heads, sizeof heads) : NULL;
    for (int64_t i = 0, end; i < n && wire != NULL; i = end) {
        PyObject *data = letter[index[i]].data;
        head_t head = head_of(&letter[index[i]], most, frozen, &bytes);
        end = end_of(letter, index, i, n);
        head.more = (int32_t)(letter[index[i]].cast < 0 ? i + 1 - end : end - i - 1);
        to = put(to, &head, sizeof head);
        for (int64_t k = i + 1; k < end; k++) {
            to = put(to, &letter[index[k]].target, 8);
        }
        if (head.kind == OTHER && PyList_Append(others, data) != 0) {
            Py_CLEAR(wire);
        } else if (head.kind == FROZEN) {
            to = put_padded(to, PyBytes_AS_STRING(data), head.extra);
        } else if (head.kind >= 0) {
            to = put_array(to, (PyArrayObject *)data);
        }
    }
    *messages = heads;
    return wire;
}

typedef struct reader {
    const char *at, *end;
} reader_t;

static int get(reader_t *self, void *to, int64_t n)
{
    PLB_PASS(plb_py_refuse(n < 0 || n > self->end - self->at, PyExc_ValueError,
                           "wire ends within a message"));
    memcpy(to, self->at, (size_t)n);
    self->at += n;
    return 0;
}

static int get_padded(reader_t *self, void *to, int64_t n)
{
    char rest[8];
    PLB_PASS(get(self, to, n));
    PLB_PASS(get(self, rest, padded(n) - n));
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
        if (get(self, &n, sizeof n)) {
            return NULL;
        }
        dim[k] = (npy_intp)n;
    }
    if (!PyTypeNum_ISNUMBER(head->kind) && !PyTypeNum_ISBOOL(head->kind)) {
        PyErr_SetString(PyExc_ValueError, "wire has an array that is not of numbers");
        return NULL;
    }
    PyObject *a = PyArray_EMPTY(head->ndim, dim, head->kind, head->extra != 0);
    if (a != NULL && get_padded(self, PyArray_DATA((PyArrayObject *)a),
                                PyArray_NBYTES((PyArrayObject *)a)) != 0) {
        Py_CLEAR(a);
    }
    return a;
}

static PyObject *get_frozen(reader_t *self, const head_t *head, PyTypeObject *frozen)
{
    if (head->extra < 0 || head->extra > INT64_MAX - 8 ||
        padded(head->extra) > self->end - self->at) {
        PyErr_SetString(PyExc_ValueError, "wire ends within a message");
        return NULL;
    }
    PyObject *plain = PyBytes_FromStringAndSize(self->at, (Py_ssize_t)head->extra);
    self->at += padded(head->extra);
    PyObject *data = plain ? PyObject_CallOneArg((PyObject *)frozen, plain) : NULL;
    Py_XDECREF(plain);
    return data;
}

static PyObject *get_data(reader_t *self, const head_t *head, PyObject *others, Py_ssize_t *taken,
                          PyTypeObject *frozen)
{
    double x;
    switch (head->kind) {
    case REAL:
        memcpy(&x, &head->extra, sizeof x);
        return PyFloat_FromDouble(x);
    case INTEGER:
        return PyLong_FromLongLong(head->extra);
    case NOTHING:
        return Py_NewRef(Py_None);
    case FROZEN:
        return get_frozen(self, head, frozen);
    case OTHER:
        if (*taken < PyList_GET_SIZE(others)) {
            return Py_NewRef(PyList_GET_ITEM(others, (*taken)++));
        }
        PyErr_SetString(PyExc_ValueError, "`others` has fewer items than the wire needs");
        return NULL;
    default:
        return get_array(self, head);
    }
}

/* Skip the further targets of a message; return their address, which need not be aligned. */
static const char *get_targets(reader_t *self, const head_t *head)
{
    const char *at = self->at;
    const int64_t size = 8 * llabs((int64_t)head->more);
    if (size > self->end - at) {
        PyErr_SetString(PyExc_ValueError, "wire ends within the targets of a message");
        return NULL;
    }
    self->at += size;
    return at;
}

/* Make a letter for each target of a message, and pass it to `take`. */
static int take_each(const head_t *head, const char *targets, PyObject *data,
                     int (*take)(void *arg, plb_letter_t letter), void *arg)
{
    plb_letter_t letter = {head->target, head->source, data,
                           head->more < 0   ? -1
                           : head->more > 0 ? 1
                                            : 0};
    const int64_t more = llabs((int64_t)head->more);
    int failed = take(arg, letter);
    for (int64_t k = 0; k < more && failed == 0; k++) {
        memcpy(&letter.target, targets + 8 * k, 8);
        letter.data = Py_NewRef(data);
        failed = take(arg, letter);
    }
    return failed;
}

int plb_wire_unpack(const char *wire, int64_t n_bytes, PyObject *others, PyTypeObject *frozen,
                    int (*take)(void *arg, plb_letter_t letter), void *arg)
{
    reader_t reader = {wire, wire + n_bytes};
    int64_t n = 0;
    Py_ssize_t taken = 0;
    int failed = get(&reader, &n, sizeof n);
    for (int64_t i = 0; i < n && failed == 0; i++) {
        head_t head;
        const char *targets =
            get(&reader, &head, sizeof head) == 0 ? get_targets(&reader, &head) : NULL;
        PyObject *data = targets != NULL ? get_data(&reader, &head, others, &taken, frozen) : NULL;
        failed = data == NULL || take_each(&head, targets, data, take, arg) != 0;
    }
    return failed ? -1 : 0;
}
