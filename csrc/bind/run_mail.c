/* The messages that the objects of one rank send and receive, as a Python object (uses csrc/run).
 *
 * Between ranks they travel as bytes (the wire).  Small plain arrays, numbers and data that are
 * already pickled are copied, in a tenth of the time that pickle takes; other data are pickled.  A
 * letter is a message to one object.  A multicast consists of several letters in a row, one for
 * each receiver, all with the same data, which are in the wire only once.  A pile is a list of
 * letters. */

#include "bind/views.h"

typedef struct letter {
    int64_t target, source;
    PyObject *data; /* owned */
    int64_t cast;   /* 0: a message to one object.  Else a part of a multicast: > 0: each receiver
                     * gets a copy; < 0: the receivers share the data.  The absolute value is the
                     * number of the multicast on the sender, and 1 on the receiver. */
} letter_t;

/* Whether letter b, which follows a, belongs to the same multicast. */
static bool same_cast(const letter_t *a, const letter_t *b)
{
    return b->cast != 0 && a->cast == b->cast && a->source == b->source && a->data == b->data;
}

/* Whether the data cannot be changed: numbers, texts, bytes, None. */
static bool is_constant(PyObject *data)
{
    return PyFloat_CheckExact(data) || PyLong_CheckExact(data) || data == Py_None ||
           PyUnicode_CheckExact(data) || PyBytes_CheckExact(data) || PyBool_Check(data) ||
           PyComplex_CheckExact(data);
}

/* Whether the data are a NumPy array without Python objects. */
static bool is_numbers(PyObject *data)
{
    return PyArray_CheckExact(data) && !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)data));
}

/* Protect data from later changes by their owner: return a copy of an array of numbers, a
 * constant itself, or freeze(data) for other data. */
static PyObject *own_copy(PyObject *data, PyObject *freeze)
{
    if (is_constant(data)) {
        return Py_NewRef(data);
    }
    PyArrayObject *a = (PyArrayObject *)data;
    if (is_numbers(data)) {
        /* Keep the order of the entries in memory (C or Fortran), as pickling does.  So sums over
         * the array do not depend on whether it was sent or copied. */
        const bool fortran = PyArray_IS_F_CONTIGUOUS(a) && !PyArray_IS_C_CONTIGUOUS(a);
        return PyArray_NewCopy(a, fortran ? NPY_FORTRANORDER : NPY_CORDER);
    }
    return PyObject_CallOneArg(freeze, data);
}

/* Estimate the bytes of the data, for the communication graph: 8 if they are unknown; for a str,
 * the number of characters. */
static int64_t bytes_of(PyObject *data)
{
    if (PyArray_CheckExact(data)) {
        return PyArray_NBYTES((PyArrayObject *)data);
    }
    if (PyBytes_Check(data)) {
        return PyBytes_GET_SIZE(data);
    }
    if (PyUnicode_Check(data)) {
        return PyUnicode_GET_LENGTH(data);
    }
    if (PyFloat_CheckExact(data) || PyLong_CheckExact(data)) {
        return 8;
    }
    PyObject *nbytes = PyObject_GetAttrString(data, "nbytes");
    const int64_t bytes = nbytes != NULL ? PyLong_AsLongLong(nbytes) : 8;
    Py_XDECREF(nbytes);
    const bool failed = PyErr_Occurred() != NULL;
    if (failed && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt(); /* raise it again, but not within the user's property `nbytes` */
    }
    PyErr_Clear();
    const int64_t most = INT64_C(1) << 53; /* a bound, so that sums do not overflow */
    return failed || bytes < 0 || bytes > most ? 8 : bytes;
}

/* ---- piles ---------------------------------------------------------------------------------- */

typedef struct pile {
    letter_t *letter;
    int64_t n, room;
} pile_t;

static int grow(pile_t *self, int64_t more)
{
    plb_err_t err_ = {0, ""}, *err = &err_;
    int ret = PLB_OK;
    PLB_GROW(self->letter, self->room, self->n + more);
    return 0;
out:
    plb_py_raise(ret, err);
    return -1;
}

/* Add a letter; the pile gets the reference to its data. */
static int push(pile_t *self, letter_t letter)
{
    if (self->n == self->room && grow(self, 1) != 0) {
        Py_DECREF(letter.data);
        return -1;
    }
    self->letter[self->n++] = letter;
    return 0;
}

/* Move all letters to the end of another pile. */
static int move_all(pile_t *self, pile_t *to)
{
    if (to->n == 0) {
        const pile_t spare = *to;
        *to = *self;
        *self = spare;
        return 0;
    }
    PLB_PASS(grow(to, self->n));
    if (self->n > 0) {
        memcpy(to->letter + to->n, self->letter, (size_t)self->n * sizeof *self->letter);
    }
    to->n += self->n;
    self->n = 0;
    return 0;
}

/* Drop all letters.  Freeing their data may run Python code, which then finds the pile empty. */
static void empty(pile_t *self)
{
    pile_t old = *self;
    *self = (pile_t){0};
    for (int64_t i = 0; i < old.n; i++) {
        Py_DECREF(old.letter[i].data);
    }
    plb_free(old.letter);
}

static int visit_pile(const pile_t *self, visitproc visit, void *arg)
{
    for (int64_t i = 0; i < self->n; i++) {
        Py_VISIT(self->letter[i].data);
    }
    return 0;
}

/* ---- the wire ------------------------------------------------------------------------------- */

typedef struct head {
    int64_t target, source;
    int16_t kind; /* an array's NumPy type, or one of OTHER ... NOTHING below */
    int16_t ndim;
    int32_t more;  /* number of further targets of a multicast, whose keys follow the head with 8
                      bytes each.  Negative: minus that number, and the receivers share the data */
    int64_t extra; /* for an array: 1 if its layout is that of Fortran; for frozen data: number of
                      bytes; for an integer: its value; for a float: its bits */
} head_t;

enum { OTHER = -1, FROZEN = -2, INTEGER = -3, REAL = -4, NOTHING = -5 };

/* A larger array is sent from its own memory.  tuned: bytes; changes only times */
enum { OUT_OF_BAND = 2048 };

static int64_t padded(int64_t n)
{
    return (n + 7) & ~(int64_t)7;
}

/* Return the head of a letter; *n_bytes: size of the packed data that follow the head. */
static head_t head_of(const letter_t *letter, const PyTypeObject *frozen, int64_t *n_bytes)
{
    PyObject *data = letter->data;
    PyArrayObject *a = (PyArrayObject *)data;
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
    } else if (PyArray_CheckExact(data) && PyArray_NBYTES(a) <= OUT_OF_BAND &&
               (PyTypeNum_ISNUMBER(PyArray_TYPE(a)) || PyTypeNum_ISBOOL(PyArray_TYPE(a))) &&
               PyArray_ISNOTSWAPPED(a) &&
               (PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a))) {
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

/* Return the end of the letters that belong to the same message as letter[index[i]]. */
static int64_t end_of(const letter_t *letter, const int32_t *index, int64_t i, int64_t n)
{
    int64_t end = i + 1;
    while (end < n && same_cast(&letter[index[end - 1]], &letter[index[end]])) {
        end++;
    }
    return end;
}

/* Pack the letters letter[index[n]] into bytes.  *messages: their number; a multicast counts as
 * one.  Packed are floats, int64, None, objects of type `frozen` (a subclass of bytes), small
 * contiguous arrays of numbers; other data are appended to the list `others`. */
static PyObject *wire_pack(const letter_t *letter, const int32_t *index, int64_t n,
                           PyTypeObject *frozen, PyObject *others, int64_t *messages)
{
    int64_t heads = 0, size = sizeof heads, bytes;
    for (int64_t i = 0, end; i < n; i = end, heads++) {
        end = end_of(letter, index, i, n);
        head_of(&letter[index[i]], frozen, &bytes);
        size += (int64_t)sizeof(head_t) + 8 * (end - i - 1) + bytes;
    }
    PyObject *wire = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    char *to = wire != NULL ? put(PyBytes_AS_STRING(wire), &heads, sizeof heads) : NULL;
    for (int64_t i = 0, end; i < n && wire != NULL; i = end) {
        PyObject *data = letter[index[i]].data;
        head_t head = head_of(&letter[index[i]], frozen, &bytes);
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
            PyArrayObject *a = (PyArrayObject *)data;
            for (int k = 0; k < head.ndim; k++) {
                const int64_t dim = PyArray_DIM(a, k);
                to = put(to, &dim, sizeof dim);
            }
            to = put_padded(to, PyArray_DATA(a), PyArray_NBYTES(a));
        }
    }
    *messages = heads;
    return wire;
}

/* Copy n bytes from *at, which advances past them and their padding. */
static void get(const char **at, void *to, int64_t n)
{
    memcpy(to, *at, (size_t)n);
    *at += padded(n);
}

static PyObject *get_data(const char **at, const head_t *head, PyObject *others, Py_ssize_t *taken,
                          PyTypeObject *frozen)
{
    double x;
    PyObject *plain, *data;
    switch (head->kind) {
    case REAL:
        memcpy(&x, &head->extra, sizeof x);
        return PyFloat_FromDouble(x);
    case INTEGER:
        return PyLong_FromLongLong(head->extra);
    case NOTHING:
        return Py_NewRef(Py_None);
    case FROZEN:
        plain = PyBytes_FromStringAndSize(*at, (Py_ssize_t)head->extra);
        *at += padded(head->extra);
        data = plain ? PyObject_CallOneArg((PyObject *)frozen, plain) : NULL;
        Py_XDECREF(plain);
        return data;
    case OTHER:
        return Py_XNewRef(PyList_GetItem(others, (*taken)++));
    default:
        npy_intp dim[NPY_MAXDIMS] = {0};
        for (int k = 0; k < head->ndim; k++) {
            int64_t n;
            get(at, &n, sizeof n);
            dim[k] = (npy_intp)n;
        }
        PyObject *a = PyArray_EMPTY(head->ndim, dim, head->kind, head->extra != 0);
        if (a != NULL) {
            get(at, PyArray_DATA((PyArrayObject *)a), PyArray_NBYTES((PyArrayObject *)a));
        }
        return a;
    }
}

/* Add the letters of the wire to a pile. */
static int wire_unpack(const char *wire, PyObject *others, PyTypeObject *frozen, pile_t *to)
{
    int64_t n;
    Py_ssize_t taken = 0;
    int failed = 0;
    get(&wire, &n, sizeof n);
    for (int64_t i = 0; i < n && failed == 0; i++) {
        head_t head;
        get(&wire, &head, sizeof head);
        const char *targets = wire; /* further targets, if the message is a multicast */
        const int64_t more = llabs((int64_t)head.more);
        wire += 8 * more;
        PyObject *data = get_data(&wire, &head, others, &taken, frozen);
        letter_t letter = {head.target, head.source, data, (head.more > 0) - (head.more < 0)};
        failed = data == NULL || push(to, letter) != 0;
        for (int64_t k = 0; k < more && failed == 0; k++) {
            memcpy(&letter.target, targets + 8 * k, 8);
            letter.data = Py_NewRef(data);
            failed = push(to, letter);
        }
    }
    return failed ? -1 : 0;
}

typedef struct mail {
    PLB_PY_HEAD PyObject *keys; /* keys of the objects here (pylb._core.Keys), or NULL */
    PyObject *freeze, *thaw;
    PyTypeObject *frozen;
    pile_t out;     /* letters sent in this iteration */
    pile_t going;   /* letters that the present delivery sends */
    pile_t coming;  /* letters that have arrived, but are not delivered yet */
    pile_t astray;  /* letters that have arrived, but whose target is on another rank */
    pile_t in;      /* delivered letters: the messages of the previous iteration */
    int32_t *order; /* [in.n] result of inbox_order, as is start[n + 1] */
    int64_t *start;
    int64_t n;  /* number of objects that were here at the delivery */
    int64_t at; /* index of the object that was looked up most recently */
    plb_talk_t talk;
    int64_t casts; /* number of multicasts so far */
} mail_t;

/* ---- sending -------------------------------------------------------------------------------- */

static int key_of(PyObject *object, const char *name, int64_t *key)
{
    int overflow = 0;
    PyObject *index = PyNumber_Index(object);
    if (index == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        plb_py_fail(PLB_ERR_VALUE, "%s is of type %s: expected an integer", name,
                    Py_TYPE(object)->tp_name);
    }
    PLB_PASS(index == NULL);
    *key = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    return overflow == 0 ? 0
                         : plb_py_fail(PLB_ERR_VALUE, "%s: expected an integer of 64 bits", name);
}

/* Return the keys of the objects that are here; there are none before bind(). */
static const plb_keys_t *keys_of(const mail_t *self)
{
    static const plb_keys_t none = {0};
    return self->keys != NULL ? plb_py_keys(self->keys) : &none;
}

/* Return the index of an object that is here, or -1.  Programs mostly look up objects one after
 * the other, so the most recent index and the next one are tried first. */
static int64_t place_of(mail_t *self, int64_t key)
{
    const plb_keys_t *keys = keys_of(self);
    for (int64_t i = self->at; i < self->at + 2 && i < keys->n; i++) {
        if (keys->key[i] == key) {
            return self->at = i;
        }
    }
    const int32_t found = plb_keys_find(keys, key);
    self->at = found >= 0 ? found : self->at;
    return found;
}

/* Read the key of a source, which must be here. */
static int source_of(mail_t *self, PyObject *object, int64_t *source)
{
    PLB_PASS(key_of(object, "source", source));
    return place_of(self, *source) >= 0
               ? 0
               : plb_py_fail(PLB_ERR_KEY, "source %lld: no such object on this rank",
                             (long long)*source);
}

PLB_PY_DEF(mail, post, "target source data copy",
           "Send data from an object of this rank to any object.")
{
    letter_t letter = {.cast = 0};
    PyObject *target, *source, *data;
    bool copy;
    PLB_PASS(PLB_READ(c, PLB_ONE(&target), PLB_ONE(&source), PLB_ONE(&data), PLB_ONE(&copy)));
    PLB_PASS(key_of(target, "target", &letter.target));
    PLB_PASS(source_of(self, source, &letter.source));
    letter.data = copy ? own_copy(data, self->freeze) : Py_NewRef(data);
    return letter.data == NULL ? -1 : push(&self->out, letter);
}

/* Read keys from any iterable into memory of the call. */
static int64_t *keys_in(plb_py_call_t *c, PyObject *given, Py_ssize_t *n)
{
    PyObject *items = PySequence_Tuple(given);
    if (items == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        plb_py_fail(PLB_ERR_VALUE, "targets is of type %s: expected keys of objects",
                    Py_TYPE(given)->tp_name);
    }
    *n = items != NULL ? PyTuple_GET_SIZE(items) : 0;
    int64_t *key = items != NULL ? plb_py_memory(c, *n, sizeof *key) : NULL;
    for (Py_ssize_t i = 0; i < *n && key != NULL; i++) {
        if (key_of(PyTuple_GET_ITEM(items, i), "target", &key[i]) != 0) {
            key = NULL;
        }
    }
    Py_XDECREF(items);
    return key;
}

PLB_PY_DEF(mail, multicast, "targets source data copy",
           "Send data to several objects, like post() to each, but only one time to each rank.")
{
    PyObject *targets, *source, *data;
    bool copy;
    Py_ssize_t n = 0;
    letter_t letter;
    PLB_PASS(PLB_READ(c, PLB_ONE(&targets), PLB_ONE(&source), PLB_ONE(&data), PLB_ONE(&copy)));
    const int64_t *target =
        source_of(self, source, &letter.source) == 0 ? keys_in(c, targets, &n) : NULL;
    PLB_PASS(target == NULL);
    if (n == 0) {
        return PLB_OK;
    }
    letter.cast = n == 1 ? 0 : copy ? ++self->casts : -++self->casts;
    letter.data = copy ? own_copy(data, self->freeze) : Py_NewRef(data);
    int failed = letter.data == NULL;
    const int64_t before = self->out.n;
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        letter.target = target[i];
        Py_INCREF(letter.data);
        failed = push(&self->out, letter);
    }
    while (failed && self->out.n > before) {
        Py_DECREF(self->out.letter[--self->out.n].data);
    }
    Py_XDECREF(letter.data);
    return plb_py_answer(c, failed ? NULL : Py_NewRef(Py_None));
}

/* Count the letters of this delivery with data that must be unpickled, which can fail. */
static int64_t frozen_in(const mail_t *self)
{
    int64_t n = 0;
    for (int64_t i = 0; i < self->going.n; i++) {
        PyObject *data = self->going.letter[i].data;
        n += !(is_constant(data) || is_numbers(data));
    }
    return n;
}

/* Return the targets of a pile's letters as an array; if `sources` is true, their sources. */
static PyObject *ends_of(const pile_t *self, bool sources)
{
    npy_intp n = (npy_intp)self->n;
    PyObject *out = PyArray_SimpleNew(1, &n, NPY_INT64);
    for (int64_t i = 0; out != NULL && i < n; i++) {
        ((int64_t *)PyArray_DATA((PyArrayObject *)out))[i] =
            sources ? self->letter[i].source : self->letter[i].target;
    }
    return out;
}

/* ---- packing -------------------------------------------------------------------------------- */

/* Pack the letters to a rank; return (rank, number of messages, wire, others). */
static PyObject *parcel_of(const mail_t *self, const pile_t *pile, int rank, const int32_t *index,
                           int64_t n)
{
    int64_t messages;
    PyObject *others = PyList_New(0);
    PyObject *wire =
        others ? wire_pack(pile->letter, index, n, self->frozen, others, &messages) : NULL;
    if (wire == NULL) {
        Py_XDECREF(others);
        return NULL;
    }
    return Py_BuildValue("iLNN", rank, (long long)messages, wire, others);
}

/* Put the letters index[n] of a pile among those that have arrived here. */
static int keep(mail_t *self, const pile_t *pile, const int32_t *index, int64_t n)
{
    int failed = 0;
    for (int64_t i = 0; i < n && !failed; i++) {
        letter_t letter = pile->letter[index[i]];
        Py_INCREF(letter.data);
        failed = push(&self->coming, letter);
    }
    return failed;
}

/* Pack letter i of the pile for rank to[i], by the rules of pack(). */
static PyObject *parcels_of(mail_t *self, const pile_t *pile, const int32_t *to, int me,
                            plb_py_call_t *c)
{
    plb_route_t route;
    int32_t most = me;
    int32_t *destination = plb_py_memory(c, pile->n, sizeof *destination);
    int32_t *order = destination ? plb_py_memory(c, pile->n, sizeof *order) : NULL;
    if (order == NULL) {
        return NULL;
    }
    for (int64_t i = 0; i < pile->n; i++) {
        most = to[i] > most ? to[i] : most;
    }
    for (int64_t i = 0; i < pile->n; i++) {
        destination[i] = to[i] >= 0 ? to[i] : most + 1; /* the last parcel is left out */
    }
    if (plb_route_init(&route, destination, pile->n, most + 2, &c->err) != PLB_OK) {
        return NULL;
    }
    for (int64_t i = 0; i < pile->n; i++) {
        order[i] = route.order != NULL ? route.order[i] : (int32_t)i;
    }
    PyObject *out = PyList_New(0);
    for (int32_t p = 0; p < route.n_peers && route.rank[p] <= most && out != NULL; p++) {
        const int32_t *mine = order + route.start[p];
        const int64_t n = route.start[p + 1] - route.start[p];
        if (route.rank[p] != me) {
            plb_py_append(&out, parcel_of(self, pile, route.rank[p], mine, n));
        } else if (keep(self, pile, mine, n) != 0) {
            Py_CLEAR(out);
        }
    }
    plb_route_free(&route);
    return out;
}

static PyObject *pack(mail_t *self, plb_py_call_t *c, const pile_t *pile)
{
    const int32_t *to;
    int64_t n = pile->n;
    int32_t me;
    if (PLB_READ(c, PLB_MANY(&to, &n), PLB_ONE(&me))) {
        return NULL;
    }
    return parcels_of(self, pile, to, me, c);
}

PLB_PY_DEF(
    mail, pack, "to me",
    "Pack the messages of this iteration.  to[n]: the rank of each message; negative: do not\n"
    "pack it.  Messages to this rank, `me`, are not packed: they count as arrived.  Returns\n"
    "a list of (rank, number of messages, wire, others).")
{
    /* packing and restoring can make objects send further messages, which wait in `out` */
    PLB_PASS(move_all(&self->out, &self->going));
    return plb_py_answer(c, pack(self, c, &self->going));
}

PLB_PY_DEF(mail, forward, "to me",
           "Pack the messages whose targets are on other ranks (see part()), like pack(),\n"
           "and forget them here.")
{
    PyObject *out = pack(self, c, &self->astray);
    empty(&self->astray);
    return plb_py_answer(c, out);
}

PLB_PY_DEF(mail, pack_inboxes, "to",
           "Pack the messages in the inboxes of objects that move.  to[n]: the new rank of each\n"
           "object that is here; negative: the object stays.  Returns a list like pack().")
{
    const int32_t *to;
    int64_t n = keys_of(self)->n;
    int32_t *where = plb_py_memory(c, self->in.n, sizeof *where);
    PLB_PASS(where == NULL);
    PLB_PASS(PLB_READ(c, PLB_MANY(&to, &n)));
    memset(where, -1, (size_t)self->in.n * sizeof *where);
    for (int64_t k = 0; k < self->n; k++) {
        for (int64_t i = self->start[k]; i < self->start[k + 1]; i++) {
            where[self->order[i]] = to[k];
        }
    }
    return plb_py_answer(c, parcels_of(self, &self->in, where, -1, c));
}

PLB_PY_DEF(mail, take, "wire others:L",
           "Unpack messages from pack() on another rank; they then count as arrived.")
{
    PyObject *wire, *others;
    Py_buffer view;
    PLB_PASS(PLB_READ(c, PLB_ONE(&wire), PLB_ONE(&others)));
    PLB_PASS(PyObject_GetBuffer(wire, &view, PyBUF_SIMPLE));
    const int failed = wire_unpack(view.buf, others, self->frozen, &self->coming);
    PyBuffer_Release(&view);
    return plb_py_answer(c, failed ? NULL : Py_NewRef(Py_None));
}

/* ---- receiving ------------------------------------------------------------------------------ */

PLB_PY_DEF(mail, open, "",
           "Begin a delivery.  If the previous delivery failed, its messages are dropped.")
{
    empty(&self->going);
    empty(&self->coming);
    empty(&self->astray);
    return PLB_OK;
}

PLB_PY_DEF(mail, part, "",
           "Among the messages that have arrived, set aside those to objects on other ranks, for\n"
           "forward().  Returns their targets and sources.")
{
    int64_t kept = 0, i = 0;
    int failed = 0;
    for (; i < self->coming.n && !failed; i++) {
        const letter_t letter = self->coming.letter[i];
        if (place_of(self, letter.target) >= 0) {
            self->coming.letter[kept++] = letter;
        } else {
            failed = push(&self->astray, letter); /* drops the letter if it fails */
        }
    }
    memmove(self->coming.letter + kept, self->coming.letter + i,
            (size_t)(self->coming.n - i) * sizeof *self->coming.letter);
    self->coming.n -= i - kept;
    return plb_py_answer(c, failed ? NULL
                                   : Py_BuildValue("NN", ends_of(&self->astray, false),
                                                   ends_of(&self->astray, true)));
}

PLB_PY_DEF(mail, restore, "", "Unpickle the pickled data of the messages that have arrived.")
{
    const PyObject *last = NULL;
    for (int64_t i = 0; i < self->coming.n; i++) {
        const letter_t letter = self->coming.letter[i];
        const bool again = letter.cast > 0 && letter.data == last && is_numbers(letter.data);
        const bool frozen = Py_TYPE(letter.data) == self->frozen;
        last = letter.data;
        if (frozen || again) {
            PyObject *own = frozen ? PyObject_CallOneArg(self->thaw, letter.data)
                                   : own_copy(letter.data, self->freeze);
            PLB_PASS(own == NULL);
            if (i >= self->coming.n || self->coming.letter[i].data != letter.data) {
                Py_DECREF(own);
                return plb_py_fail(PLB_ERR_STATE, "restoring a message must not deliver messages");
            }
            self->coming.letter[i].data = own;
            Py_DECREF(letter.data);
        }
    }
    return PLB_OK;
}

static bool is_sorted(const int32_t *order, const int64_t *source, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        if (source[order[i]] < source[order[i - 1]]) {
            return false;
        }
    }
    return true;
}

/* Order by source, then by arrival. */
static int by_source(const void *a, const void *b, void *arg)
{
    const int64_t *source = arg;
    const int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    return source[i] != source[k] ? (source[i] < source[k] ? -1 : 1) : i < k ? -1 : i > k;
}

/* Sort m messages by receiver, source and order of arrival.  to[m]: the receivers, 0 ... n-1; -1:
 * not here, the message is left out.  Results: order[m] and start[n + 1]; object i reads
 * order[start[i]] ... order[start[i + 1] - 1]. */
static void inbox_order(const int32_t *to, const int64_t *source, int64_t m, int64_t n,
                        int64_t *start, int32_t *order)
{
    memset(start, 0, (size_t)(n + 1) * sizeof *start);
    for (int64_t i = 0; i < m; i++) {
        start[to[i] + 1] += to[i] >= 0;
    }
    for (int64_t k = 0; k < n; k++) {
        start[k + 1] += start[k];
    }
    for (int64_t i = 0; i < m; i++) {
        if (to[i] >= 0) {
            order[start[to[i]]++] = (int32_t)i;
        }
    }
    /* the loop has moved each start[i] to the old start[i + 1]: shift back */
    memmove(start + 1, start, (size_t)n * sizeof *start);
    start[0] = 0;
    for (int64_t k = 0; k < n; k++) {
        int32_t *mine = order + start[k];
        const int64_t count = start[k + 1] - start[k];
        if (!is_sorted(mine, source, count)) {
            qsort_r(mine, (size_t)count, sizeof *mine, by_source, (void *)(uintptr_t)source);
        }
    }
}

/* Sort the delivered messages by the objects that are here; leave out those to other objects. */
static int sort(mail_t *self, plb_py_call_t *c)
{
    const int64_t n = keys_of(self)->n, m = self->in.n;
    int ret = PLB_OK;
    plb_err_t *err = &c->err;
    int64_t *source = NULL;
    int32_t *to = NULL;
    if (m == 0) { /* saves time: most programs with very many objects send nothing */
        self->n = 0;
        return 0;
    }
    PLB_NEW_EACH(m, to, source);
    PLB_RENEW(self->start, n + 1);
    PLB_RENEW(self->order, m);
    for (int64_t i = 0; i < m; i++) {
        to[i] = (int32_t)place_of(self, self->in.letter[i].target);
        source[i] = self->in.letter[i].source;
    }
    inbox_order(to, source, m, n, self->start, self->order);
    self->n = n;
out:
    PLB_FREE(to, source);
    self->n = ret == PLB_OK ? n : 0;
    return ret;
}

PLB_PY_DEF(mail, deliver, "!adds",
           "End a delivery: put the messages that have arrived into the inboxes, and add to the "
           "communication graph the messages that were sent.")
{
    /* Add the messages that were sent to the communication graph, which has only senders that are
     * here: since the message, its sender may have moved (in an LB step at the start of a loop),
     * or it was removed. */
    int64_t *target = plb_py_memory(c, self->going.n, sizeof *target);
    for (int64_t i = 0, n; i < self->going.n && target != NULL; i += n) {
        const letter_t *letter = self->going.letter + i;
        n = 0;
        do {
            target[n] = letter[n].target;
        } while (i + ++n < self->going.n && same_cast(letter + n - 1, letter + n));
        if (place_of(self, letter->source) >= 0 &&
            plb_talk_add(&self->talk, letter->source, target, n, bytes_of(letter->data),
                         &c->err) != PLB_OK) {
            return c->err.code;
        }
    }
    PLB_PASS(target == NULL);
    pile_t old = {0};
    if (c->arg != Py_True) {
        old = self->in;
        self->in = (pile_t){0};
    }
    self->n = 0;
    const int failed = move_all(&self->coming, &self->in);
    empty(&old);
    empty(&self->going);
    return plb_py_answer(c, failed == 0 && sort(self, c) == 0 ? Py_NewRef(Py_None) : NULL);
}

/* Keep only the delivered letters to these objects (`wanted` false: to all other objects). */
static int filter(mail_t *self, const plb_keys_t *keys, bool wanted)
{
    pile_t old = self->in, kept = {0};
    int failed = 0;
    self->n = 0;
    for (int64_t i = 0; i < old.n && !failed; i++) {
        letter_t letter = old.letter[i];
        if ((plb_keys_find(keys, letter.target) >= 0) == wanted) {
            Py_INCREF(letter.data);
            failed = push(&kept, letter);
        }
    }
    self->in = kept;
    empty(&old);
    return failed;
}

PLB_PY_DEF(mail, bind, "!keys", "Set the objects that are here, a pylb._core.Keys.")
{
    const plb_keys_t *here = plb_py_keys(c->arg);
    PLB_PASS(here == NULL);
    Py_XSETREF(self->keys, Py_NewRef(c->arg));
    self->n = self->at = 0;
    const bool bound = move_all(&self->coming, &self->in) == 0 && filter(self, here, true) == 0 &&
                       sort(self, c) == 0;
    return plb_py_answer(c, bound ? Py_NewRef(Py_None) : NULL);
}

PLB_PY_DEF(
    mail, inbox, "!key",
    "Return the messages to an object that is here: a list of (source, data), sorted by source.")
{
    int64_t wanted;
    PLB_PASS(key_of(c->arg, "key", &wanted));
    const int64_t k = place_of(self, wanted);
    PLB_FAIL_IF(k < 0, &c->err, PLB_ERR_KEY, "key %lld: no such object on this rank",
                (long long)wanted);
    const int64_t begin = k < self->n ? self->start[k] : 0;
    const int64_t end = k < self->n ? self->start[k + 1] : 0;
    PyObject *out = PyList_New((Py_ssize_t)(end - begin));
    for (int64_t i = begin; i < end && out != NULL; i++) {
        const letter_t letter = self->in.letter[self->order[i]];
        PyObject *pair = Py_BuildValue("LO", (long long)letter.source, letter.data);
        if (pair == NULL) {
            Py_CLEAR(out);
        } else {
            PyList_SET_ITEM(out, (Py_ssize_t)(i - begin), pair);
        }
    }
    return plb_py_answer(c, out);
}

/* ---- the communication graph ---------------------------------------------------------------- */

PLB_PY_DEF(mail, edges, "",
           "Return the communication graph since the last clear(), (m, 5) int64: source, target,\n"
           "bytes, how many messages, number of the edge's multicast (0: none).")
{
    return plb_py_answer(c, plb_py_copy2(self->talk.edge, self->talk.n, 5, NPY_INT64));
}

PLB_PY_DEF(mail, clear, "", "Forget the communication graph.")
{
    plb_talk_clear(&self->talk);
    return PLB_OK;
}

PLB_PY_DEF(mail, forget, "!keys",
           "Forget the messages to removed objects, and their part of the communication graph.")
{
    const plb_keys_t *gone = plb_py_keys(c->arg);
    PLB_PASS(gone == NULL || filter(self, gone, false) != 0);
    return plb_talk_drop(&self->talk, gone, &c->err);
}

PLB_PY_DEF(mail, drop, "", "Forget the messages that were sent in this iteration.")
{
    empty(&self->out);
    empty(&self->going);
    return PLB_OK;
}

static int mail_init(mail_t *self, plb_py_call_t *c)
{
    PyObject *freeze, *thaw, *frozen;
    PLB_PASS(PLB_READ(c, PLB_ONE(&freeze), PLB_ONE(&thaw), PLB_ONE(&frozen)));
    PLB_PASS(plb_py_refuse(!PyType_Check(frozen) ||
                               !PyType_IsSubtype((PyTypeObject *)frozen, &PyBytes_Type),
                           PyExc_TypeError, "frozen: expected a subclass of bytes"));
    self->freeze = Py_NewRef(freeze);
    self->thaw = Py_NewRef(thaw);
    self->frozen = (PyTypeObject *)Py_NewRef(frozen);
    return 0;
}

static int mail_traverse(PyObject *object, visitproc visit, void *arg)
{
    const mail_t *self = (mail_t *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->keys);
    Py_VISIT(self->freeze);
    Py_VISIT(self->thaw);
    Py_VISIT(self->frozen);
    PLB_PASS(visit_pile(&self->out, visit, arg));
    PLB_PASS(visit_pile(&self->going, visit, arg));
    PLB_PASS(visit_pile(&self->coming, visit, arg));
    PLB_PASS(visit_pile(&self->astray, visit, arg));
    return visit_pile(&self->in, visit, arg);
}

static int mail_clear_refs(PyObject *object)
{
    mail_t *self = (mail_t *)object;
    self->n = 0;
    empty(&self->out);
    empty(&self->going);
    empty(&self->coming);
    empty(&self->astray);
    empty(&self->in);
    Py_CLEAR(self->keys);
    return 0;
}

static void mail_fini(mail_t *self)
{
    mail_clear_refs((PyObject *)self);
    Py_XDECREF(self->freeze);
    Py_XDECREF(self->thaw);
    Py_XDECREF(self->frozen);
    PLB_FREE(self->order, self->start);
    plb_talk_free(&self->talk);
}

static const plb_py_def_t *const mail_methods[] = {
    &mail_bind,         &mail_post,  &mail_multicast, &mail_open,    &mail_pack,    &mail_forward,
    &mail_pack_inboxes, &mail_take,  &mail_part,      &mail_restore, &mail_deliver, &mail_inbox,
    &mail_edges,        &mail_clear, &mail_forget,    &mail_drop,    NULL};

#define MAIL(X)                                                                                   \
    X(mail, n_coming, PyLong_FromLongLong(self->coming.n),                                        \
      "Number of messages that have arrived.")                                                    \
    X(mail, arrived, ends_of(&self->coming, false),                                               \
      "Targets of the messages that have arrived, (n_coming,) int64.")                            \
    X(mail, n_sent, PyLong_FromLongLong(self->out.n),                                             \
      "Number of messages that were sent in this iteration so far.")                              \
    X(mail, targets, ends_of(&self->out, false),                                                  \
      "Targets of the messages that were sent in this iteration, (n_sent,) int64.")               \
    X(mail, sources, ends_of(&self->out, true),                                                   \
      "Sources of the messages that were sent in this iteration, (n_sent,) int64.")               \
    X(mail, n_frozen, PyLong_FromLongLong(frozen_in(self)),                                       \
      "How many of the packed messages may fail to be restored.")
PLB_PY_PROPERTIES(mail, MAIL)

PLB_PY_TYPE(
    mail, "pylb._core.Mail", "freeze thaw frozen",
    "The messages of one rank's objects.  freeze, thaw: pickle data into `frozen`, and restore.",
    {Py_tp_getset, mail_getset}, {Py_tp_traverse, mail_traverse}, {Py_tp_clear, mail_clear_refs}, )

const plb_py_room_t plb_py_run_mail = {NULL, {&mail_spec}, NULL};
