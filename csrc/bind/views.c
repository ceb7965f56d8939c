/* Converts Python arguments and NumPy arrays to C, and results back to Python. */
#include "bind/views.h"

#include "base/ints.h"

#include <stdarg.h>

/* Say that the object of this call is in another call. */
static int refuse(const plb_py_call_t *c)
{
    const char *type = strrchr(Py_TYPE(c->self)->tp_name, '.') + 1;
    const bool nested = c->self->thread == PyThread_get_thread_ident();
    PLB_PY_RAISE(PLB_ERR_STATE, "%s.%s() %s %s.%s(): expected one call at a time", type, c->name,
                 nested ? "within" : "while another thread is in", type, c->self->within);
    return -1;
}

int plb_py_begin(plb_py_call_t *c, PyObject *self, const char *name)
{
    c->self = (plb_py_object_t *)self;
    c->name = name;
    c->held.n = 0;
    c->n_memory = 0;
    c->code = PLB_OK;
    c->err.text[0] = '\0';
    const bool busy =
        self != NULL && c->self->within != NULL && c->self->thread != PyThread_get_thread_ident();
    return busy ? refuse(c) : 0;
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
    return keep(held, PyArray_FROMANY(object, type, ndim, ndim, NPY_ARRAY_IN_ARRAY));
}

static int bad_length(const char *name, PyArrayObject *a, int64_t n)
{
    PLB_PY_RAISE(PLB_ERR_VALUE, "%s has %zd entries: expected %lld", name, PyArray_SIZE(a),
                 (long long)n);
    return -1;
}

int plb_py_view(plb_py_held_t *held, PyObject *object, const char *name, int type, int64_t n,
                const void *data)
{
    PyArrayObject *a = object != Py_None ? plb_py_hold(held, object, type, 0) : NULL;
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
        PyErr_Format(PyExc_ValueError,
                     "%s: expected a contiguous array of %lld entries (right dtype, writable)",
                     name, (long long)n);
        return NULL;
    }
    return PyArray_DATA(a);
}

PyArrayObject *plb_py_records(PyObject *object, size_t size, bool writable)
{
    PyArrayObject *a = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_NDIM(a) != 1 || !PyArray_ISCARRAY_RO(a) ||
        (size_t)PyArray_ITEMSIZE(a) != size || (writable && !PyArray_ISWRITEABLE(a))) {
        PyErr_Format(PyExc_ValueError, "expected a contiguous (n,) array of records of %zu bytes",
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

enum { LONGEST_NAME = 64 };

/* An item of a spec: "name:kind", followed without spaces by flags and "=default", if any. */
typedef struct item {
    const char *name; /* ends with a colon */
    char kind, size;
    bool none, more, any, in_place; /* the flags ? + @ ! */
    bool by_keyword;                /* this item, or one before it, follows a `*` */
    const char *fallback; /* text of the default value, up to the next space or the end of the
                             spec; NULL: no default */
} item_t;

/* Read the item at `*spec`, and advance `*spec`; false at the end and at "...". */
static bool next_item(const char **spec, item_t *out)
{
    const char *s = *spec;
    s += *s == ' ';
    if (*s == '*') {
        out->by_keyword = true;
        s += strlen("* ");
    }
    if (*s == '\0' || *s == '.') {
        *spec = s;
        return false;
    }
    for (out->name = s; *s != ':'; s++) {
    }
    out->kind = *++s;
    out->size = *++s >= '1' && *s <= '9' ? *s++ : '\0';
    out->none = out->more = out->any = out->in_place = false;
    out->fallback = NULL;
    for (; *s != ' ' && *s != '\0'; s++) {
        out->none = out->none || *s == '?';
        out->more = out->more || *s == '+';
        out->any = out->any || *s == '@';
        out->in_place = out->in_place || *s == '!';
        if (*s == '=') {
            out->fallback = s + 1;
            s += strcspn(s, " ");
            break;
        }
    }
    *spec = s;
    return true;
}

/* Return the item's name; the next call overwrites it. */
static const char *name_of(const item_t *item)
{
    static char name[LONGEST_NAME]; /* safe: the reading thread has the GIL */
    size_t n = 0;
    for (; item->name[n] != ':' && n < sizeof name - 1; n++) {
        name[n] = item->name[n];
    }
    name[n] = '\0';
    return name;
}

/* Return the value of a keyword, borrowed, or NULL. */
static PyObject *keyword_of(const plb_py_source_t *self, const char *name)
{
    const Py_ssize_t n = self->keywords ? PyTuple_GET_SIZE(self->keywords) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(self->keywords, i), name) == 0) {
            return self->args[self->n_args + i];
        }
    }
    return self->kwargs ? PyDict_GetItemString(self->kwargs, name) : NULL;
}

/* Return the value of an item, a new reference; NULL: it is absent, or there is an exception. */
static PyObject *value_of(plb_py_source_t *self, const item_t *item)
{
    if (self->object != NULL) {
        return PyObject_GetAttrString(self->object, name_of(item));
    }
    if (!item->by_keyword && self->n_read < self->n_args) {
        return Py_NewRef(self->args[self->n_read++]);
    }
    PyObject *value = keyword_of(self, name_of(item));
    self->n_keywords += value != NULL;
    if (value == NULL && item->fallback == NULL) {
        PyErr_Format(PyExc_TypeError, "missing argument: %s", name_of(item));
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
        if (!item->none) {
            PLB_PY_RAISE(PLB_ERR_VALUE, "%s is None: expected an array", name_of(item));
        }
        return item->none ? 0 : -1;
    }
    if (item->in_place) {
        *data = plb_py_in_place(value, name_of(item), type, *n);
        return *data != NULL ? 0 : -1;
    }
    PyArrayObject *a = plb_py_hold(held, value, type, item->any ? 0 : 1);
    PLB_PY_PASS(a == NULL);
    *n = *n < 0 ? PyArray_SIZE(a) - item->more : *n;
    if (PyArray_SIZE(a) != *n + item->more || *n < 0) {
        return bad_length(name_of(item), a, *n < 0 ? 1 : *n + item->more);
    }
    *data = PyArray_DATA(a);
    return 0;
}

static int read_numbers(const item_t *item, PyObject *value, double *out)
{
    const Py_ssize_t n = item->size - '0';
    PyObject *items = PySequence_Fast(value, "expected a sequence of numbers");
    if (items != NULL && PySequence_Fast_GET_SIZE(items) != n) {
        PyErr_Format(PyExc_TypeError, "%s: expected %zd numbers", name_of(item), n);
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
        PyErr_Format(PyExc_OverflowError, "%s: %R does not fit 32 bits", name_of(item), value);
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
        PyErr_Format(PyExc_ValueError, "%s: embedded null character", name_of(item));
        *out = NULL;
    }
    return *out != NULL ? 0 : -1;
}

static int read_object(const item_t *item, PyObject *value, PyObject **out)
{
    PLB_PY_REFUSE_IF((item->kind == 'T' && !PyTuple_Check(value)) ||
                         (item->kind == 'L' && !PyList_Check(value)),
                     PyExc_TypeError, "%s: expected a %s, not %.80s", name_of(item),
                     item->kind == 'T' ? "tuple" : "list", Py_TYPE(value)->tp_name);
    *out = value;
    return 0;
}

/* Read a scalar or an object. */
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

static inline int read_item(plb_py_held_t *held, const item_t *item, PyObject *value, void *to,
                            int64_t *n)
{
    if (n == NULL) {
        return read_one(item, value, to);
    }
    if (item->kind != 'I') {
        return read_array(held, item, array_type(item), value, to, n);
    }
    plb_ints_t *ints = to;
    ints->wide = !(PyArray_Check(value) && PyArray_TYPE((PyArrayObject *)value) == NPY_INT32);
    return read_array(held, item, ints->wide ? NPY_INT64 : NPY_INT32, value,
                      (const void **)&ints->data, n);
}

/* Read the items of `*spec` into the targets, and advance `*spec`. */
static int read_all(plb_py_source_t *self, plb_py_held_t *held, const char **spec, va_list targets)
{
    item_t item = {.by_keyword = self->by_keyword};
    while (next_item(spec, &item)) {
        PyObject *value = value_of(self, &item);
        void *to = va_arg(targets, void *);
        int64_t *n = is_array(&item) ? va_arg(targets, int64_t *) : NULL;
        const int failed = value != NULL ? read_item(held, &item, value, to, n)
                                         : PyErr_Occurred() != NULL; /* else the value is absent */
        Py_XDECREF(value); /* the owner of the value, or `held`, still refers to it */
        if (failed) {
            return -1;
        }
    }
    if (**spec == '.') { /* another call reads the rest */
        self->by_keyword = item.by_keyword;
        *spec += strlen("...");
        return 0;
    }
    PLB_PY_REFUSE_IF(self->n_read < self->n_args, PyExc_TypeError,
                     "expected at most %zd positional arguments, not %zd", self->n_read,
                     self->n_args);
    PLB_PY_REFUSE_IF(self->n_keywords < (self->keywords ? PyTuple_GET_SIZE(self->keywords)
                                         : self->kwargs ? PyDict_GET_SIZE(self->kwargs)
                                                        : 0),
                     PyExc_TypeError, "an argument is unknown or given twice");
    return 0;
}

int plb_py_parse(plb_py_call_t *c, ...)
{
    va_list targets;
    va_start(targets, c);
    const int failed = read_all(&c->source, &c->held, &c->spec, targets);
    va_end(targets);
    return failed;
}

int plb_py_items(plb_py_call_t *c, PyObject *tuple, const char *spec, ...)
{
    PLB_PY_REFUSE_IF(!PyTuple_Check(tuple), PyExc_TypeError, "expected a tuple, not %.80s",
                     Py_TYPE(tuple)->tp_name);
    plb_py_source_t source = {.args = &PyTuple_GET_ITEM(tuple, 0),
                              .n_args = PyTuple_GET_SIZE(tuple)};
    va_list targets;
    va_start(targets, spec);
    const int failed = read_all(&source, &c->held, &spec, targets);
    va_end(targets);
    return failed;
}

int plb_py_fields(plb_py_call_t *c, PyObject *object, const char *spec, ...)
{
    plb_py_source_t source = {.object = object};
    va_list targets;
    va_start(targets, spec);
    const int failed = read_all(&source, &c->held, &spec, targets);
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

void *plb_py_zeros(plb_py_call_t *c, int type, int64_t n)
{
    npy_intp shape = (npy_intp)n;
    PyArrayObject *a = keep(&c->held, PyArray_ZEROS(1, &shape, type, 0));
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

/* ---- error codes, threads, modules ---------------------------------------------------------- */

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

bool plb_py_unlock(plb_py_call_t *c)
{
    if (c->self != NULL) {
        if (c->self->within != NULL) {
            refuse(c);
            c->code = PLB_ERR_STATE;
            return false;
        }
        c->self->within = c->name;
        c->self->thread = PyThread_get_thread_ident();
    }
    c->state = PyEval_SaveThread();
    c->outer = plb_interrupt_set((plb_interrupt_t){.check = plb_py_tick, .arg = &c->state});
    return true;
}

void plb_py_lock(plb_py_call_t *c)
{
    plb_interrupt_set(c->outer);
    PyEval_RestoreThread(c->state);
    if (c->self != NULL) {
        c->self->within = NULL;
    }
}

/* Key of the list of plb_py_stop_when in a thread's dictionary. */
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

void plb_py_drop(void *const *reference, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Py_XDECREF(reference[i]);
    }
}

int plb_py_visit(PyObject *object, visitproc visit, void *arg, void *const *reference, size_t n)
{
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < n; i++) {
        Py_VISIT(reference[i]);
    }
    return 0;
}

int plb_py_add_value(PyObject *module, const char *name, PyObject *value)
{
    const int failed = value == NULL || PyModule_AddObjectRef(module, name, value) != 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

/* Return "name(first, argument, ...)\n--\n\ntext", the form that Python expects, made from
 * "spec\0text".  The result is never freed. */
static char *signed_text(const char *name, const char *first, const char *spec)
{
    const char *text = spec + strlen(spec) + 1;
    char *out = PyMem_Malloc(strlen(name) + 2 * strlen(spec) + strlen(text) + 64), *to = out;
    item_t item = {.by_keyword = false};
    bool any = *first != '\0', star = false;
    if (out == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    to += sprintf(to, "%s(%s", name, first);
    for (; next_item(&spec, &item) || *spec == '.'; any = true) {
        if (*spec == '.') {
            spec += strlen("...");
            continue;
        }
        to += sprintf(to, "%s%s%.*s", any ? ", " : "", item.by_keyword && !star ? "*, " : "",
                      (int)strcspn(item.name, ":"), item.name);
        star = item.by_keyword;
        if (item.fallback != NULL) {
            to += sprintf(to, "=%.*s", (int)strcspn(item.fallback, " "), item.fallback);
        }
    }
    sprintf(to, "%s)\n--\n\n%s", *first == '\0' || star ? "" : ", /", text);
    return out;
}

/* Put a signature before the text of each method whose text begins with a spec. */
static int sign_methods(PyMethodDef *methods, const char *first)
{
    for (PyMethodDef *m = methods; m != NULL && m->ml_name != NULL; m++) {
        if ((m->ml_flags & METH_KEYWORDS) && strchr(m->ml_doc, '(') == NULL) {
            PLB_PY_PASS((m->ml_doc = signed_text(m->ml_name, first, m->ml_doc)) == NULL);
        }
    }
    return 0;
}

/* Make the signatures of a type's constructor and methods, and set its flags. */
static int finish_type(PyType_Spec *spec)
{
    for (PyType_Slot *slot = spec->slots; slot->slot != 0; slot++) {
        spec->flags |= slot->slot == Py_tp_traverse ? Py_TPFLAGS_HAVE_GC : 0;
        PLB_PY_PASS(slot->slot == Py_tp_methods && sign_methods(slot->pfunc, "$self") != 0);
        if (slot->slot == Py_tp_doc && strchr(slot->pfunc, '(') == NULL) {
            slot->pfunc = signed_text(strrchr(spec->name, '.') + 1, "", slot->pfunc);
            PLB_PY_PASS(slot->pfunc == NULL);
        }
    }
    return 0;
}

int plb_py_add(PyObject *module, const plb_py_room_t *room)
{
    for (size_t i = 0; i < sizeof room->types / sizeof *room->types && room->types[i]; i++) {
        PLB_PY_PASS(finish_type(room->types[i]));
        PyObject *type = PyType_FromModuleAndSpec(module, room->types[i], NULL);
        const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
        Py_XDECREF(type);
        PLB_PY_PASS(failed);
    }
    PLB_PY_PASS(plb_py_add_functions(module, room->methods));
    return room->more != NULL ? room->more(module) : 0;
}

int plb_py_add_functions(PyObject *module, PyMethodDef *methods)
{
    PLB_PY_PASS(sign_methods(methods, "$module"));
    return methods == NULL ? 0 : PyModule_AddFunctions(module, methods);
}
