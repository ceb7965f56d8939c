/* The one place where NumPy arrays become C views and back. */
#include "bind/views.h"

PyArrayObject *plb_py_hold(plb_py_held_t *held, PyObject *object, int type, int ndim)
{
    if (object == Py_None) {
        return NULL;
    }
    if (held->n == PLB_PY_MAX_HELD) {
        PyErr_SetString(PyExc_SystemError, "plb_py_hold: too many arrays");
        return NULL;
    }
    PyArrayObject *a =
        (PyArrayObject *)PyArray_FROMANY(object, type, ndim, ndim, NPY_ARRAY_IN_ARRAY);
    if (a != NULL) {
        held->array[held->n++] = a;
    }
    return a;
}

void plb_py_release(plb_py_held_t *held)
{
    for (int i = 0; i < held->n; i++) {
        Py_DECREF(held->array[i]);
    }
    held->n = 0;
}

/* Attribute `name` as a view of n elements; *data stays NULL where it is None. */
static int attribute(plb_py_held_t *held, PyObject *object, const char *name, int type, npy_intp n,
                     const void **data)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    if (value == NULL) {
        return -1;
    }
    PyArrayObject *a = plb_py_hold(held, value, type, 0);
    Py_DECREF(value);
    if (a == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (PyArray_SIZE(a) != n) {
        PyErr_Format(PyExc_ValueError, "%s has %zd entries: expected %zd", name, PyArray_SIZE(a),
                     n);
        return -1;
    }
    *data = PyArray_DATA(a);
    return 0;
}

static int64_t integer(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    const int64_t n = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return n;
}

int plb_py_snapshot(plb_py_held_t *held, PyObject *object, plb_snapshot_t *out)
{
    *out = (plb_snapshot_t){0};
    out->n_objects = integer(object, "n_objects");
    out->n_ranks = (int32_t)integer(object, "n_ranks");
    out->n_components = (int32_t)integer(object, "n_components");
    out->n_edges = integer(object, "n_edges");
    out->n_multicasts = integer(object, "n_multicasts");
    out->n_pins = integer(object, "n_pins");
    out->n_blocks = (int32_t)integer(object, "n_blocks");
    if (PyErr_Occurred()) {
        return -1;
    }
    const npy_intp n = out->n_objects, d = out->n_components, p = out->n_ranks, m = out->n_edges;
    const npy_intp c = out->n_multicasts, pins = out->n_pins, b = out->n_blocks;
#define VIEW(name, type, count)                                                                   \
    if (attribute(held, object, #name, type, count, (const void **)&out->name) != 0) {            \
        return -1;                                                                                \
    }
    PLB_PY_SNAPSHOT(VIEW)
#undef VIEW
    return 0;
}

int plb_py_trace(plb_py_held_t *held, PyObject *object, plb_trace_t *out)
{
    *out = (plb_trace_t){0};
    out->n_phases = integer(object, "n_phases");
    out->n_ranks = (int32_t)integer(object, "n_ranks");
    PyObject *key = PyErr_Occurred() ? NULL : PyObject_GetAttrString(object, "entity_key");
    out->n_entities = key ? PyObject_Length(key) : -1;
    Py_XDECREF(key);
    if (PyErr_Occurred()) {
        return -1;
    }
    const npy_intp m = out->n_phases, p = out->n_ranks, n_entities = out->n_entities;
#define VIEW(name, type, count)                                                                   \
    (attribute(held, object, #name, type, count, (const void **)&out->name) != 0)
    if (VIEW(entity_key, NPY_INT64, n_entities) || VIEW(entity_migratable, NPY_BOOL, n_entities) ||
        VIEW(task_ptr, NPY_INT64, m + 1) || VIEW(edge_ptr, NPY_INT64, m + 1) ||
        VIEW(speed, NPY_FLOAT64, p) || VIEW(background, NPY_FLOAT64, p) ||
        VIEW(figures, NPY_FLOAT64, m * PLB_FIGURES) || VIEW(measured, NPY_FLOAT64, p)) {
        return -1;
    }
    const npy_intp tasks = out->task_ptr[m], edges = out->edge_ptr[m];
    return attribute(held, object, "_repeats", NPY_UINT8, m, (const void **)&out->repeats) != 0 ||
                   VIEW(task_entity, NPY_INT32, tasks) || VIEW(task_rank, NPY_INT32, tasks) ||
                   VIEW(task_home, NPY_INT32, tasks) || VIEW(task_load, NPY_FLOAT64, tasks) ||
                   VIEW(task_bytes, NPY_INT64, tasks) || VIEW(task_memory, NPY_INT64, tasks) ||
                   VIEW(edge_src, NPY_INT32, edges) || VIEW(edge_dst, NPY_INT32, edges) ||
                   VIEW(edge_bytes, NPY_FLOAT64, edges) || VIEW(edge_messages, NPY_FLOAT64, edges)
               ? -1
               : 0;
#undef VIEW
}

int plb_py_view(plb_py_held_t *held, PyObject *object, const char *name, int type, int64_t n,
                const void *data)
{
    PyArrayObject *a = plb_py_hold(held, object, type, 0);
    if (a == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (n >= 0 && PyArray_SIZE(a) != n) {
        PyErr_Format(PyExc_ValueError, "%s has %zd entries: expected %lld", name, PyArray_SIZE(a),
                     (long long)n);
        return -1;
    }
    *(const void **)data = PyArray_DATA(a);
    return 0;
}

static void free_capsule(PyObject *capsule)
{
    plb_free(PyCapsule_GetPointer(capsule, NULL));
}

PyObject *plb_py_take(void *data, npy_intp n, int type)
{
    PyObject *owner = PyCapsule_New(data, NULL, free_capsule);
    if (owner == NULL) {
        plb_free(data);
        return NULL;
    }
    PyObject *array = PyArray_SimpleNewFromData(1, &n, type, data);
    if (array == NULL) {
        Py_DECREF(owner);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)array, owner) != 0) { /* steals owner */
        Py_DECREF(array);
        return NULL;
    }
    PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    return array;
}

int plb_py_tick(void *arg)
{
    PyThreadState **state = arg;
    PyEval_RestoreThread(*state);
    const int stop = PyErr_CheckSignals();
    *state = PyEval_SaveThread();
    return stop ? PLB_ERR_INTERRUPTED : PLB_OK;
}

int plb_py_comms(plb_py_held_t *held, PyObject *start, PyObject *member, plb_comms_t *out)
{
    PyArrayObject *s = plb_py_hold(held, start, NPY_INT64, 1);
    PyArrayObject *m = s ? plb_py_hold(held, member, NPY_INT32, 1) : NULL;
    if (m == NULL) {
        return -1;
    }
    *out = (plb_comms_t){(int32_t)PyArray_SIZE(s) - 1, PyArray_DATA(s), PyArray_DATA(m)};
    bool fits = out->n >= 0 && out->start[0] == 0 && out->start[out->n] == PyArray_SIZE(m);
    for (int32_t i = 0; fits && i < out->n; i++) {
        fits = out->start[i] <= out->start[i + 1];
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the communicators' starts do not fit their members");
    }
    return fits ? 0 : -1;
}

const char **plb_py_texts(PyObject *list)
{
    const Py_ssize_t n = PyList_GET_SIZE(list);
    const char **out = PyMem_New(const char *, n + 1);
    for (Py_ssize_t i = 0; out != NULL && i < n; i++) {
        out[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
        if (out[i] == NULL) {
            PyMem_Free(out);
            return NULL;
        }
    }
    if (out == NULL) {
        PyErr_NoMemory();
    }
    return out;
}

PyArrayObject *plb_py_records(PyObject *object, size_t size, bool writable)
{
    if (!PyArray_Check(object) || PyArray_NDIM((PyArrayObject *)object) != 1 ||
        !PyArray_ISCARRAY_RO((PyArrayObject *)object) ||
        (size_t)PyArray_ITEMSIZE((PyArrayObject *)object) != size ||
        (writable && !PyArray_ISWRITEABLE((PyArrayObject *)object))) {
        PyErr_Format(PyExc_ValueError, "expected a contiguous array of records of %zu bytes",
                     size);
        return NULL;
    }
    return (PyArrayObject *)object;
}
