/* The only place where Python arguments and NumPy arrays are converted to C, and back. */
#include "bind/views.h"

#include "base/ints.h"

#include <stdarg.h>

void plb_py_begin(plb_py_call_t *c, PyObject *args, PyObject *kwargs)
{
    c->args = args;
    c->kwargs = kwargs;
    c->n_args = c->n_keywords = 0;
    c->held.n = 0;
    c->n_memory = 0;
    c->code = PLB_OK;
    c->err.text[0] = '\0';
}

PyObject *plb_py_end(plb_py_call_t *c, PyObject *answer)
{
    plb_py_release(&c->held);
    for (int i = 0; i < c->n_memory; i++) {
        plb_free(c->memory[i]);
    }
    return answer;
}

void plb_py_release(plb_py_held_t *held)
{
    for (int i = 0; i < held->n; i++) {
        Py_DECREF(held->array[i]);
    }
    held->n = 0;
}

static PyArrayObject *keep(plb_py_held_t *held, PyObject *array)
{
    if (array != NULL && held->n == PLB_PY_MAX_HELD) {
        PyErr_SetString(PyExc_SystemError, "too many arrays in one call");
        Py_CLEAR(array);
    }
    if (array != NULL) {
        held->array[held->n++] = (PyArrayObject *)array;
    }
    return (PyArrayObject *)array;
}

PyArrayObject *plb_py_hold(plb_py_held_t *held, PyObject *object, int type, int ndim)
{
    return object == Py_None
               ? NULL
               : keep(held, PyArray_FROMANY(object, type, ndim, ndim, NPY_ARRAY_IN_ARRAY));
}

static int bad_length(const char *name, PyArrayObject *a, int64_t n)
{
    plb_err_t err;
    const int code = PLB_FAIL(&err, PLB_ERR_VALUE, "%s has %zd entries: expected %lld", name,
                              PyArray_SIZE(a), (long long)n);
    return (plb_py_raise(code, &err), -1);
}

int plb_py_view(plb_py_held_t *held, PyObject *object, const char *name, int type, int64_t n,
                const void *data)
{
    PyArrayObject *a = plb_py_hold(held, object, type, 0);
    if (a != NULL && n >= 0 && PyArray_SIZE(a) != n) {
        return bad_length(name, a, n);
    }
    *(const void **)data = a != NULL ? PyArray_DATA(a) : NULL;
    return a == NULL && PyErr_Occurred() ? -1 : 0;
}

void *plb_py_in_place(PyObject *object, const char *name, int type, int64_t n)
{
    PyArrayObject *a = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_TYPE(a) != type || PyArray_SIZE(a) != n ||
        !PyArray_ISCARRAY(a)) {
        PyErr_Format(PyExc_ValueError, "%s: expected a contiguous array of %lld entries", name,
                     (long long)n);
        return NULL;
    }
    return PyArray_DATA(a);
}

PyArrayObject *plb_py_records(PyObject *object, size_t size, bool writable)
{
    PyArrayObject *a = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_NDIM(a) != 1 || !PyArray_ISCARRAY_RO(a) ||
        (size_t)PyArray_ITEMSIZE(a) != size || (writable && !PyArray_ISWRITEABLE(a))) {
        PyErr_Format(PyExc_ValueError, "expected a contiguous array of records of %zu bytes",
                     size);
        return NULL;
    }
    return a;
}

bool plb_py_rises(const int64_t *start, int64_t n, int64_t end)
{
    bool rises = n >= 0 && start[0] == 0 && start[n] == end;
    for (int64_t i = 0; rises && i < n; i++) {
        rises = start[i] <= start[i + 1];
    }
    return rises;
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* Where values are read from: a tuple and a dict of arguments, or the attributes of an object. */
typedef struct source {
    PyObject *args, *kwargs, *object;
    Py_ssize_t n_args, n_keywords; /* number of values that were read so far */
} source_t;

enum { LONGEST_NAME = 64 };

/* Read an item "name:kind flags" at `*spec`, and advance `*spec`; false at the end. */
typedef struct item {
    char name[LONGEST_NAME];
    char kind, size;
    bool optional, none, more, any, in_place;
} item_t;

static bool next_item(const char **spec, item_t *out)
{
    const char *s = *spec;
    for (; *s == ' ' || *s == '|'; s++) {
        out->optional = out->optional || *s == '|';
    }
    if (*s == '\0' || *s == '.') {
        *spec = s;
        return false;
    }
    int n = 0;
    for (; *s != ':' && n < LONGEST_NAME - 1; s++) {
        out->name[n++] = *s;
    }
    out->name[n] = '\0';
    out->kind = *++s;
    out->size = *++s >= '1' && *s <= '9' ? *s++ : '\0';
    out->none = out->more = out->any = out->in_place = false;
    for (; *s != ' ' && *s != '\0'; s++) {
        out->none = out->none || *s == '?';
        out->more = out->more || *s == '+';
        out->any = out->any || *s == '@';
        out->in_place = out->in_place || *s == '!';
    }
    *spec = s;
    return true;
}

/* Return a new reference; NULL: the value is absent, or there is an exception. */
static PyObject *value_of(source_t *self, const item_t *item)
{
    if (self->object != NULL) {
        return PyObject_GetAttrString(self->object, item->name);
    }
    if (self->args != NULL && self->n_args < PyTuple_GET_SIZE(self->args)) {
        return Py_NewRef(PyTuple_GET_ITEM(self->args, self->n_args++));
    }
    PyObject *value = self->kwargs ? PyDict_GetItemString(self->kwargs, item->name) : NULL;
    self->n_keywords += value != NULL;
    if (value == NULL && !item->optional) {
        PyErr_Format(PyExc_TypeError, "missing argument: %s", item->name);
    }
    return Py_XNewRef(value);
}

static int array_type(const item_t *item)
{
    return item->kind == 'f'   ? NPY_FLOAT64
           : item->kind == 'b' ? NPY_BOOL
           : item->kind == 'u' ? NPY_UINT8
           : item->size == '8' ? NPY_INT64
                               : NPY_INT32;
}

static int read_array(plb_py_held_t *held, const item_t *item, int type, PyObject *value,
                      const void **data, int64_t *n)
{
    *data = NULL;
    if (value == Py_None) {
        plb_err_t err;
        if (item->none) {
            return 0;
        }
        const int code =
            PLB_FAIL(&err, PLB_ERR_VALUE, "%s is None: expected an array", item->name);
        return (plb_py_raise(code, &err), -1);
    }
    if (item->in_place) {
        *data = plb_py_in_place(value, item->name, type, *n);
        return *data != NULL ? 0 : -1;
    }
    PyArrayObject *a = plb_py_hold(held, value, type, item->any ? 0 : 1);
    PLB_PY_PASS(a == NULL);
    *n = *n < 0 ? PyArray_SIZE(a) - item->more : *n;
    if (PyArray_SIZE(a) != *n + item->more || *n < 0) {
        return bad_length(item->name, a, *n < 0 ? 1 : *n + item->more);
    }
    *data = PyArray_DATA(a);
    return 0;
}

static int read_numbers(const item_t *item, PyObject *value, double *out)
{
    const Py_ssize_t n = item->size - '0';
    PyObject *items = PySequence_Fast(value, "expected a sequence of numbers");
    if (items != NULL && PySequence_Fast_GET_SIZE(items) != n) {
        PyErr_Format(PyExc_TypeError, "%s: expected %zd numbers", item->name, n);
    }
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < n; i++) {
        out[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(items, i));
    }
    Py_XDECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_int32(const item_t *item, PyObject *value, int32_t *out)
{
    int overflow;
    const long x = PyLong_AsLongAndOverflow(value, &overflow);
    if (overflow || x > INT32_MAX || x < INT32_MIN) {
        PyErr_Format(PyExc_OverflowError, "%s: %R does not fit 32 bits", item->name, value);
    }
    *out = (int32_t)x;
    return PyErr_Occurred() ? -1 : 0;
}

static int read_text(const item_t *item, PyObject *value, const char **out)
{
    *out = NULL;
    if (item->kind == 'z' && value == Py_None) {
        return 0;
    }
    Py_ssize_t size;
    *out = PyUnicode_AsUTF8AndSize(value, &size);
    if (*out != NULL && strlen(*out) != (size_t)size) {
        PyErr_Format(PyExc_ValueError, "%s: embedded null character", item->name);
        *out = NULL;
    }
    return *out != NULL ? 0 : -1;
}

static int read_object(const item_t *item, PyObject *value, PyObject **out)
{
    PLB_PY_REFUSE_IF((item->kind == 'T' && !PyTuple_Check(value)) ||
                         (item->kind == 'L' && !PyList_Check(value)),
                     PyExc_TypeError, "%s: expected a %s, not %.80s", item->name,
                     item->kind == 'T' ? "tuple" : "list", Py_TYPE(value)->tp_name);
    *out = value;
    return 0;
}

/* Read a scalar or object; 0, or -1 with an exception. */
static int read_one(const item_t *item, PyObject *value, void *to)
{
    switch (item->kind) {
    case 'd':
        if (item->size != '\0') {
            return read_numbers(item, value, to);
        }
        *(double *)to = PyFloat_AsDouble(value);
        break;
    case 'i':
        return read_int32(item, value, to);
    case 'l':
        *(int64_t *)to = PyLong_AsLongLong(value);
        break;
    case 'n':
        *(int64_t *)to = value == Py_None ? INT64_MAX : PyLong_AsLongLong(value);
        break;
    case 'u':
        *(uint32_t *)to = (uint32_t)PyLong_AsUnsignedLongMask(value);
        break;
    case 'k':
        *(uint64_t *)to = PyLong_AsUnsignedLongLongMask(value);
        break;
    case 'p': {
        const int is = PyObject_IsTrue(value);
        *(bool *)to = is > 0;
        return is < 0 ? -1 : 0;
    }
    case 's':
    case 'z':
        return read_text(item, value, to);
    default:
        return read_object(item, value, to);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static bool is_array(const item_t *item)
{
    return item->kind == 'I' || (item->size != '\0' && item->kind != 'd');
}

static int read_all(source_t *self, plb_py_held_t *held, const char *spec, va_list targets)
{
    item_t item = {.optional = false};
    while (next_item(&spec, &item)) {
        PyObject *value = value_of(self, &item);
        int failed = value == NULL && PyErr_Occurred();
        void *to = va_arg(targets, void *);
        int64_t *n = is_array(&item) ? va_arg(targets, int64_t *) : NULL;
        if (value == NULL) { /* an absent argument: its target keeps its value */
        } else if (item.kind == 'I') {
            plb_ints_t *ints = to;
            ints->wide =
                !(PyArray_Check(value) && PyArray_TYPE((PyArrayObject *)value) == NPY_INT32);
            failed = read_array(held, &item, ints->wide ? NPY_INT64 : NPY_INT32, value,
                                (const void **)&ints->data, n);
        } else if (n != NULL) {
            failed = read_array(held, &item, array_type(&item), value, to, n);
        } else {
            failed = read_one(&item, value, to);
        }
        Py_XDECREF(value); /* its owner or `held` still refers to it */
        if (failed) {
            return -1;
        }
    }
    if (*spec == '.') { /* another call reads the rest */
        return 0;
    }
    PLB_PY_REFUSE_IF(self->args != NULL && self->n_args < PyTuple_GET_SIZE(self->args),
                     PyExc_TypeError, "expected %zd arguments, not %zd", self->n_args,
                     PyTuple_GET_SIZE(self->args));
    PLB_PY_REFUSE_IF(self->kwargs != NULL && self->n_keywords < PyDict_GET_SIZE(self->kwargs),
                     PyExc_TypeError, "an argument is unknown or given twice");
    return 0;
}

int plb_py_parse(plb_py_call_t *c, const char *spec, ...)
{
    source_t source = {c->args, c->kwargs, NULL, c->n_args, c->n_keywords};
    va_list targets;
    va_start(targets, spec);
    const int failed = read_all(&source, &c->held, spec, targets);
    va_end(targets);
    c->n_args = source.n_args;
    c->n_keywords = source.n_keywords;
    return failed;
}

int plb_py_items(plb_py_call_t *c, PyObject *tuple, const char *spec, ...)
{
    PLB_PY_REFUSE_IF(!PyTuple_Check(tuple), PyExc_TypeError, "expected a tuple, not %.80s",
                     Py_TYPE(tuple)->tp_name);
    source_t source = {.args = tuple};
    va_list targets;
    va_start(targets, spec);
    const int failed = read_all(&source, &c->held, spec, targets);
    va_end(targets);
    return failed;
}

int plb_py_fields(plb_py_call_t *c, PyObject *object, const char *spec, ...)
{
    source_t source = {.object = object};
    va_list targets;
    va_start(targets, spec);
    const int failed = read_all(&source, &c->held, spec, targets);
    va_end(targets);
    return failed;
}

int plb_py_options(plb_py_call_t *c, PyObject *list, const char *const **option, int *n_options)
{
    if (list == NULL || list == Py_None) {
        return 0;
    }
    const Py_ssize_t n = PyList_GET_SIZE(list);
    const char **out = plb_py_memory(c, n, sizeof *out);
    for (Py_ssize_t i = 0; out != NULL && i < n; i++) {
        out[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
    }
    *option = (const char *const *)out;
    *n_options = (int)(n / 2);
    return PyErr_Occurred() ? -1 : 0;
}

int plb_py_comms(plb_py_held_t *held, PyObject *start, PyObject *member, plb_comms_t *out)
{
    PyArrayObject *s = plb_py_hold(held, start, NPY_INT64, 1);
    PyArrayObject *m = s ? plb_py_hold(held, member, NPY_INT32, 1) : NULL;
    PLB_PY_PASS(m == NULL);
    *out = (plb_comms_t){(int32_t)PyArray_SIZE(s) - 1, PyArray_DATA(s), PyArray_DATA(m)};
    PLB_PY_REFUSE_IF(!plb_py_rises(out->start, out->n, PyArray_SIZE(m)), PyExc_ValueError,
                     "comm_start: expected to rise from 0 to the number of members");
    return 0;
}

/* ---- outputs -------------------------------------------------------------------------------- */

void *plb_py_new(plb_py_call_t *c, int type, int64_t n)
{
    npy_intp shape = (npy_intp)n;
    PyArrayObject *a = keep(&c->held, PyArray_SimpleNew(1, &shape, type));
    return a != NULL ? PyArray_DATA(a) : NULL;
}

void *plb_py_new2(plb_py_call_t *c, int type, int64_t rows, int64_t cols)
{
    npy_intp shape[2] = {(npy_intp)rows, (npy_intp)cols};
    PyArrayObject *a = keep(&c->held, PyArray_SimpleNew(2, shape, type));
    return a != NULL ? PyArray_DATA(a) : NULL;
}

PyObject *plb_py_out(plb_py_call_t *c, const void *data)
{
    int i = c->held.n - 1;
    while (data != NULL && i >= 0 && PyArray_DATA(c->held.array[i]) != data) {
        i--;
    }
    return data != NULL && i >= 0 ? Py_NewRef((PyObject *)c->held.array[i]) : Py_NewRef(Py_None);
}

PyObject *plb_py_sealed(plb_py_call_t *c, const void *data)
{
    PyObject *array = plb_py_out(c, data);
    if (array != Py_None) {
        PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    }
    return array;
}

static PyObject *filled(PyObject *array, const void *data)
{
    if (array != NULL && data != NULL) {
        PyArrayObject *a = (PyArrayObject *)array;
        memcpy(PyArray_DATA(a), data, (size_t)PyArray_NBYTES(a));
    }
    return array;
}

PyObject *plb_py_copy(const void *data, int64_t n, int type)
{
    npy_intp shape = (npy_intp)n;
    return data ? filled(PyArray_SimpleNew(1, &shape, type), data) : Py_NewRef(Py_None);
}

PyObject *plb_py_copy2(const void *data, int64_t rows, int64_t cols, int type)
{
    npy_intp shape[2] = {(npy_intp)rows, (npy_intp)cols};
    return filled(PyArray_SimpleNew(2, shape, type), rows > 0 ? data : NULL);
}

static void free_capsule(PyObject *capsule)
{
    plb_free(PyCapsule_GetPointer(capsule, NULL));
}

PyObject *plb_py_take(void *data, int64_t n, int type)
{
    if (data == NULL) {
        Py_RETURN_NONE;
    }
    npy_intp shape = (npy_intp)n;
    PyObject *owner = PyCapsule_New(data, NULL, free_capsule);
    if (owner == NULL) {
        plb_free(data);
        return NULL;
    }
    PyObject *array = PyArray_SimpleNewFromData(1, &shape, type, data);
    if (array == NULL) {
        Py_DECREF(owner);
        return NULL;
    }
    /* steals the reference to `owner` */
    if (PyArray_SetBaseObject((PyArrayObject *)array, owner) != 0) {
        Py_DECREF(array);
        return NULL;
    }
    PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    return array;
}

void *plb_py_memory(plb_py_call_t *c, int64_t n, size_t size)
{
    void *out = c->n_memory < PLB_PY_MAX_MEMORY ? plb_calloc((size_t)n, size) : NULL;
    if (out == NULL) {
        return plb_py_no_memory();
    }
    return c->memory[c->n_memory++] = out;
}

/* ---- codes, threads, modules ---------------------------------------------------------------- */

PyObject *plb_py_no_memory(void)
{
    PyErr_SetString(PyExc_MemoryError, "out of memory in the core of pylb");
    return NULL;
}

PyObject *plb_py_fail(plb_py_call_t *c)
{
    return plb_py_raise(c->code, &c->err);
}

int plb_py_check(plb_py_call_t *c, int code)
{
    if (code != PLB_OK) {
        plb_py_raise(code, &c->err);
    }
    return code == PLB_OK ? 0 : -1;
}

void plb_py_unlock(plb_py_call_t *c)
{
    c->state = PyEval_SaveThread();
    c->outer = plb_interrupt_set((plb_interrupt_t){.check = plb_py_tick, .arg = &c->state});
}

void plb_py_lock(plb_py_call_t *c)
{
    plb_interrupt_set(c->outer);
    PyEval_RestoreThread(c->state);
}

/* Key in a thread's dictionary.  The value is a list; as soon as it has an item, the thread must
 * stop. */
static const char stop_key[] = "pylb_stop";

int plb_py_stop_when(PyObject *list)
{
    PyObject *dict = PyThreadState_GetDict();
    return dict == NULL ? -1 : PyDict_SetItemString(dict, stop_key, list);
}

int plb_py_check_signals(void)
{
    PyObject *dict = PyThreadState_GetDict();
    PyObject *list = dict == NULL ? NULL : PyDict_GetItemString(dict, stop_key);
    PLB_PY_PASS(PyErr_CheckSignals());
    if (list != NULL && PyList_GET_SIZE(list) > 0) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return -1;
    }
    return 0;
}

int plb_py_tick(void *arg)
{
    PyThreadState **state = arg;
    PyEval_RestoreThread(*state);
    const int stop = plb_py_check_signals();
    *state = PyEval_SaveThread();
    return stop ? PLB_ERR_INTERRUPTED : PLB_OK;
}

bool plb_py_enter(bool *busy, const char *who)
{
    if (*busy) {
        PyErr_Format(PyExc_RuntimeError, "another thread %s", who);
        return false;
    }
    return *busy = true;
}

int plb_py_add(PyObject *module, const plb_py_room_t *room)
{
    for (size_t i = 0; i < sizeof room->types / sizeof *room->types && room->types[i]; i++) {
        PyType_Spec *spec = room->types[i];
        for (const PyType_Slot *slot = spec->slots; slot->slot != 0; slot++) {
            spec->flags |= slot->slot == Py_tp_traverse ? Py_TPFLAGS_HAVE_GC : 0;
        }
        PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
        const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
        Py_XDECREF(type);
        if (failed) {
            return -1;
        }
    }
    PLB_PY_PASS(room->methods != NULL && PyModule_AddFunctions(module, room->methods) != 0);
    return room->more != NULL ? room->more(module) : 0;
}
