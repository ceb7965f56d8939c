/* Converts Python arguments and NumPy arrays to C, results back to Python, and error codes of the
 * C core to exceptions: classes of pylb.errors or of Python. */
#include "bind/views.h"

#include <stdarg.h>

PyObject *plb_py_raise(int code, const plb_err_t *err)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    const char *name = "SystemError";
#define X(id, number, class, help) name = code == number ? class : name;
    PLB_ERRORS(X)
#undef X
    PyObject *module = PyImport_ImportModule("pylb.errors");
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
    if (module != NULL && type == NULL) {
        PyErr_Clear();
        type = PyMapping_GetItemString(PyEval_GetBuiltins(), name);
    }
    if (type != NULL) {
        PyErr_SetString(type, err->text);
    }
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
}

int plb_py_fail(int code, const char *format, ...)
{
    plb_err_t err;
    va_list values;
    va_start(values, format);
    vsnprintf(err.text, sizeof err.text, format, values);
    va_end(values);
    plb_py_raise(code, &err);
    return -1;
}

int plb_py_refuse(bool wrong, PyObject *type, const char *format, ...)
{
    if (wrong) {
        va_list values;
        va_start(values, format);
        PyErr_FormatV(type, format, values);
        va_end(values);
    }
    return wrong ? -1 : 0;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Raise an error: another call is using this object. */
static int refuse_call(const plb_py_call_t *c)
{
    const char *type = strrchr(Py_TYPE(c->self)->tp_name, '.') + 1;
    const bool nested = c->self->thread == PyThread_get_thread_ident();
    return plb_py_fail(PLB_ERR_STATE, "%s.%s() %s %s.%s(): expected one call at a time", type,
                       c->name, nested ? "within" : "while another thread is in", type,
                       c->self->within);
}

int plb_py_begin(plb_py_call_t *c, const plb_py_def_t *def, PyObject *object,
                 plb_py_source_t source)
{
    c->self = object == NULL || PyModule_Check(object) ? NULL : (plb_py_object_t *)object;
    c->name = def != NULL ? def->name : NULL;
    c->spec = def != NULL ? def->spec : NULL;
    c->arg = c->answer = NULL;
    c->source = source;
    c->held.n = 0;
    c->n_memory = 0;
    c->err.code = PLB_OK;
    c->err.text[0] = '\0';
    if (c->self != NULL && c->self->within != NULL &&
        c->self->thread != PyThread_get_thread_ident()) {
        return refuse_call(c);
    }
    if (def != NULL && *def->spec == '!') {
        c->spec++;
        return PLB_READ(c, PLB_ONE(&c->arg));
    }
    const bool given = source.n_args > 0 || source.keywords != NULL;
    return given && def != NULL && *def->spec == '\0' ? plb_py_read(c, &(const plb_py_arg_t){0})
                                                      : 0;
}

int plb_py_answer(plb_py_call_t *c, PyObject *answer)
{
    c->answer = answer;
    return answer == NULL ? -1 : 0;
}

PyObject *plb_py_end(plb_py_call_t *c, int failed)
{
    if (failed) {
        Py_CLEAR(c->answer);
        plb_py_raise(c->err.code != PLB_OK ? c->err.code : failed, &c->err);
    } else if (c->answer == NULL) {
        c->answer = Py_NewRef(Py_None);
    }
    plb_py_release(&c->held);
    for (int i = 0; i < c->n_memory; i++) {
        plb_free(c->memory[i]);
    }
    return c->answer;
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

/* An item of a spec: a name, followed without spaces by flags and "=default", if any. */
typedef struct item {
    const char *name;
    size_t n_name;
    bool none, more, any; /* the flags ? + @ */
    int n_numbers;        /* the flags 2 ... 9; 0: none */
    PyTypeObject *only;   /* the flags T and L */
    bool by_keyword;      /* this item, or one before it, follows a `*` */
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
    *out = (item_t){.name = s, .by_keyword = out->by_keyword};
    while (*s != ' ' && *s != ':' && *s != '=' && *s != '\0') {
        s++;
    }
    out->n_name = (size_t)(s - out->name);
    for (; *s != ' ' && *s != '='; s++) {
        if (*s == '\0') {
            *spec = s;
            return true;
        }
        out->none = out->none || *s == '?';
        out->more = out->more || *s == '+';
        out->any = out->any || *s == '@';
        out->n_numbers = *s >= '2' && *s <= '9' ? *s - '0' : out->n_numbers;
        out->only = *s == 'T' ? &PyTuple_Type : *s == 'L' ? &PyList_Type : out->only;
    }
    if (*s == '=') {
        out->fallback = s + 1;
        s += strcspn(s, " ");
    }
    *spec = s;
    return true;
}

/* Return the item's name; the next call overwrites it. */
static const char *name_of(const item_t *item)
{
    static char name[LONGEST_NAME]; /* safe: the reading thread has the GIL */
    const size_t n = item->n_name < sizeof name ? item->n_name : sizeof name - 1;
    memcpy(name, item->name, n);
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

static int array_type(int kind)
{
    switch (kind & ~PLB_PY_IN_PLACE) {
    case 'D':
        return NPY_FLOAT64;
    case 'L':
        return NPY_INT64;
    case 'I':
        return NPY_INT32;
    case 'U':
        return NPY_UINT8;
    default:
        return NPY_BOOL;
    }
}

static int read_array(plb_py_held_t *held, const item_t *item, PyObject *value,
                      const plb_py_arg_t *to)
{
    const void **data = to->to;
    int type = array_type(to->kind);
    if (to->kind == 'N') {
        plb_ints_t *ints = to->to;
        ints->wide = !(PyArray_Check(value) && PyArray_TYPE((PyArrayObject *)value) == NPY_INT32);
        type = ints->wide ? NPY_INT64 : NPY_INT32;
        data = (const void **)&ints->data;
    }
    *data = NULL;
    if (value == Py_None) {
        return item->none
                   ? 0
                   : plb_py_fail(PLB_ERR_VALUE, "%s is None: expected an array", name_of(item));
    }
    if (to->kind & PLB_PY_IN_PLACE) {
        *data = plb_py_in_place(value, name_of(item), type, *to->n);
        return *data != NULL ? 0 : -1;
    }
    const int n_dims = item->any ? 0 : 1; /* 0: any */
    PyArrayObject *a =
        keep(held, PyArray_FROMANY(value, type, n_dims, n_dims, NPY_ARRAY_IN_ARRAY));
    PLB_PASS(a == NULL);
    *to->n = *to->n < 0 ? PyArray_SIZE(a) - item->more : *to->n;
    if (PyArray_SIZE(a) != *to->n + item->more || *to->n < 0) {
        return plb_py_fail(PLB_ERR_VALUE, "%s has %zd entries: expected %lld", name_of(item),
                           PyArray_SIZE(a), (long long)(*to->n < 0 ? 1 : *to->n + item->more));
    }
    *data = PyArray_DATA(a);
    return 0;
}

static int read_int32(const item_t *item, PyObject *value, int32_t *out)
{
    int overflow;
    const long x = PyLong_AsLongAndOverflow(value, &overflow);
    if (overflow || x > INT32_MAX || x < INT32_MIN) {
        PyErr_Format(PyExc_OverflowError, "%s: %R does not fit 32 bits", name_of(item), value);
    }
    *out = (int32_t)x;
    return x == -1 && PyErr_Occurred() ? -1 : overflow || x != *out ? -1 : 0;
}

static int read_text(const item_t *item, PyObject *value, const char **out)
{
    *out = NULL;
    if (item->none && value == Py_None) {
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

/* Read a value into a target.  The owner of the value, or `held`, keeps what the target needs. */
static int read_item(plb_py_held_t *held, const item_t *item, PyObject *value,
                     const plb_py_arg_t *to)
{
    switch (to->kind) {
    case 'd':
        if (item->n_numbers > 0) {
            double *const out = to->to;
            PyObject *items = PySequence_Fast(value, "expected a sequence of numbers");
            if (items != NULL && PySequence_Fast_GET_SIZE(items) != item->n_numbers) {
                PyErr_Format(PyExc_TypeError, "%s: expected %d numbers", name_of(item),
                             item->n_numbers);
            }
            for (Py_ssize_t i = 0; !PyErr_Occurred() && i < item->n_numbers; i++) {
                out[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(items, i));
            }
            Py_XDECREF(items);
            return PyErr_Occurred() ? -1 : 0;
        }
        *(double *)to->to = PyFloat_AsDouble(value);
        return *(double *)to->to == -1.0 && PyErr_Occurred() ? -1 : 0;
    case 'i':
        return read_int32(item, value, to->to);
    case 'l':
        *(int64_t *)to->to = item->none && value == Py_None ? INT64_MAX : PyLong_AsLongLong(value);
        return *(int64_t *)to->to == -1 && PyErr_Occurred() ? -1 : 0;
    case 'u':
        *(uint32_t *)to->to = (uint32_t)PyLong_AsUnsignedLongMask(value);
        return PyErr_Occurred() ? -1 : 0;
    case 'k':
        *(uint64_t *)to->to = PyLong_AsUnsignedLongLongMask(value);
        return PyErr_Occurred() ? -1 : 0;
    case 'p': {
        const int is = PyObject_IsTrue(value);
        *(bool *)to->to = is > 0;
        return is < 0 ? -1 : 0;
    }
    case 's':
        return read_text(item, value, to->to);
    case 'o':
        *(PyObject **)to->to = value;
        if (item->only != NULL && !PyObject_TypeCheck(value, item->only)) {
            return plb_py_refuse(true, PyExc_TypeError, "%s: expected a %s, not %.80s",
                                 name_of(item), item->only->tp_name, Py_TYPE(value)->tp_name);
        }
        return 0;
    default:
        return read_array(held, item, value, to);
    }
}

/* Read the items of `*spec` into the targets, and advance `*spec`. */
static int read_all(plb_py_source_t *self, plb_py_held_t *held, const char **spec,
                    const plb_py_arg_t *to)
{
    item_t item = {.by_keyword = self->by_keyword};
    for (; next_item(spec, &item); to++) {
        if (to->kind == 0) {
            break;
        }
        PyObject *value = value_of(self, &item);
        const int failed = value != NULL ? read_item(held, &item, value, to)
                                         : PyErr_Occurred() != NULL; /* else the value is absent */
        Py_XDECREF(value);
        if (failed) {
            return -1;
        }
    }
    if (to->kind != 0 || (**spec != '\0' && **spec != '.')) {
        return plb_py_refuse(true, PyExc_SystemError, "%s has another number of targets", *spec);
    }
    if (**spec == '.') { /* another call reads the rest */
        self->by_keyword = item.by_keyword;
        *spec += strlen("...");
        return 0;
    }
    if (self->n_read < self->n_args) {
        return plb_py_refuse(true, PyExc_TypeError,
                             "expected at most %zd positional arguments, not %zd", self->n_read,
                             self->n_args);
    }
    const Py_ssize_t n = self->keywords ? PyTuple_GET_SIZE(self->keywords)
                         : self->kwargs ? PyDict_GET_SIZE(self->kwargs)
                                        : 0;
    return plb_py_refuse(self->n_keywords < n, PyExc_TypeError,
                         "an argument is unknown or given twice");
}

int plb_py_read(plb_py_call_t *c, const plb_py_arg_t *args)
{
    return read_all(&c->source, &c->held, &c->spec, args);
}

int plb_py_items(plb_py_call_t *c, PyObject *tuple, const char *spec, const plb_py_arg_t *args)
{
    PLB_PASS(plb_py_refuse(!PyTuple_Check(tuple), PyExc_TypeError, "expected a tuple, not %.80s",
                           Py_TYPE(tuple)->tp_name));
    plb_py_source_t source = {.args = &PyTuple_GET_ITEM(tuple, 0),
                              .n_args = PyTuple_GET_SIZE(tuple)};
    return read_all(&source, &c->held, &spec, args);
}

int plb_py_fields(plb_py_call_t *c, PyObject *object, const char *spec, const plb_py_arg_t *args)
{
    plb_py_source_t source = {.object = object};
    return read_all(&source, &c->held, &spec, args);
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

PyObject *plb_py_take(void *data, int64_t n, int type)
{
    PyObject *out = plb_py_copy(data, n, type);
    if (out != NULL && out != Py_None) {
        PyArray_CLEARFLAGS((PyArrayObject *)out, NPY_ARRAY_WRITEABLE);
    }
    plb_free(data);
    return out;
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

bool plb_py_unlock(plb_py_call_t *c)
{
    if (c->self != NULL) {
        if (c->self->within != NULL) {
            refuse_call(c);
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

int plb_py_check_signals(void)
{
    PyObject *dict = PyThreadState_GetDict();
    PyObject *list = dict == NULL ? NULL : PyDict_GetItemString(dict, plb_py_stop_key);
    PLB_PASS(PyErr_CheckSignals());
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

int plb_py_add_value(PyObject *module, const char *name, PyObject *value)
{
    const int failed = value == NULL || PyModule_AddObjectRef(module, name, value) != 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

/* Return "name(first, argument, ...)\n--\n\ntext", the form that Python expects; NULL: there is no
 * memory.  The result is never freed. */
static char *signed_text(const char *name, const char *first, const char *spec, const char *text)
{
    char *out = PyMem_Malloc(strlen(name) + 2 * strlen(spec) + strlen(text) + 64), *to = out;
    item_t item = {.by_keyword = false};
    bool any = *first != '\0', star = false;
    if (out == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec += *spec == '!';
    to += sprintf(to, "%s(%s", name, first);
    for (; next_item(&spec, &item) || *spec == '.'; any = true) {
        if (*spec == '.') {
            spec += strlen("...");
            continue;
        }
        to += sprintf(to, "%s%s%.*s", any ? ", " : "", item.by_keyword && !star ? "*, " : "",
                      (int)item.n_name, item.name);
        star = item.by_keyword;
        if (item.fallback != NULL) {
            to += sprintf(to, "=%.*s", (int)strcspn(item.fallback, " "), item.fallback);
        }
    }
    sprintf(to, "%s)\n--\n\n%s", *first == '\0' || star ? "" : ", /", text);
    return out;
}

/* Return a new table of these definitions as Python expects it, which is never freed, or NULL. */
static PyMethodDef *methods_of(const plb_py_def_t *const *def, const char *first)
{
    size_t n = 0;
    while (def[n] != NULL) {
        n++;
    }
    PyMethodDef *out = PyMem_Calloc(n + 1, sizeof *out);
    if (out == NULL) {
        PyErr_NoMemory();
    }
    for (size_t i = 0; i < n && out != NULL; i++) {
        out[i] = (PyMethodDef){def[i]->name, (PyCFunction)(void (*)(void))def[i]->call,
                               METH_FASTCALL | METH_KEYWORDS,
                               signed_text(def[i]->name, first, def[i]->spec, def[i]->text)};
        if (out[i].ml_doc == NULL) {
            return NULL;
        }
    }
    return out;
}

/* Make the signatures of a type's constructor and methods, once, and set its flags. */
static int finish_type(PyType_Spec *spec)
{
    const char *doc = NULL;
    for (PyType_Slot *slot = spec->slots; slot->slot != 0; slot++) {
        doc = slot->slot == Py_tp_doc ? slot->pfunc : doc;
    }
    if (strchr(doc, '(') != NULL) { /* has a signature already */
        return 0;
    }
    for (PyType_Slot *slot = spec->slots; slot->slot != 0; slot++) {
        spec->flags |= slot->slot == Py_tp_traverse ? Py_TPFLAGS_HAVE_GC : 0;
        if (slot->slot == Py_tp_methods) {
            PLB_PASS((slot->pfunc = methods_of(slot->pfunc, "$self")) == NULL);
        } else if (slot->slot == Py_tp_doc) {
            slot->pfunc =
                signed_text(strrchr(spec->name, '.') + 1, "", doc, doc + strlen(doc) + 1);
            PLB_PASS(slot->pfunc == NULL);
        }
    }
    return 0;
}

int plb_py_add(PyObject *module, const plb_py_room_t *room)
{
    for (size_t i = 0; i < sizeof room->types / sizeof *room->types && room->types[i]; i++) {
        PLB_PASS(finish_type(room->types[i]));
        PyObject *type = PyType_FromModuleAndSpec(module, room->types[i], NULL);
        const int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) != 0;
        Py_XDECREF(type);
        PLB_PASS(failed);
    }
    PLB_PASS(room->methods != NULL && plb_py_add_functions(module, room->methods));
    return room->more != NULL ? room->more(module) : 0;
}

int plb_py_add_functions(PyObject *module, const plb_py_def_t *const *methods)
{
    PyMethodDef *table = methods_of(methods, "$module");
    return table == NULL ? -1 : PyModule_AddFunctions(module, table);
}
