/* Room explore: recorded runs of vt.  A scan is a capsule that holds the file's text (any object
 * with a buffer: mmap, bytes) and the index of it. */
#include "bind/views.h"

typedef struct held_scan {
    Py_buffer text;
    plb_vt_scan_t scan;
} held_scan_t;

static const char capsule_name[] = "pylb._core.vt_scan";

static void free_scan(PyObject *capsule)
{
    held_scan_t *held = PyCapsule_GetPointer(capsule, capsule_name);
    plb_vt_scan_free(&held->scan);
    PyBuffer_Release(&held->text);
    plb_free(held);
}

PyDoc_STRVAR(
    scan_doc,
    "vt_scan(text, name, /)\n--\n\n"
    "Index of one rank's LBDatafile, a capsule that keeps `text` (a buffer); `name` goes\n"
    "into messages.  The GIL is released.");
static PyObject *scan(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *text;
    const char *name;
    if (!PyArg_ParseTuple(args, "Os", &text, &name)) {
        return NULL;
    }
    held_scan_t *held = plb_calloc(1, sizeof *held);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    if (PyObject_GetBuffer(text, &held->text, PyBUF_SIMPLE) != 0) {
        plb_free(held);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(held, capsule_name, free_scan);
    if (capsule == NULL) {
        PyBuffer_Release(&held->text);
        plb_free(held);
        return NULL;
    }
    plb_err_t err;
    int ret;
    Py_BEGIN_ALLOW_THREADS ret =
        plb_vt_scan(&held->scan, held->text.buf, (size_t)held->text.len, name, &err);
    Py_END_ALLOW_THREADS if (ret != PLB_OK)
    {
        Py_DECREF(capsule);
        return plb_py_raise(ret, &err);
    }
    return capsule;
}

static const plb_vt_scan_t *scan_of(PyObject *capsule)
{
    held_scan_t *held = PyCapsule_GetPointer(capsule, capsule_name);
    return held == NULL ? NULL : &held->scan;
}

PyDoc_STRVAR(head_doc, "vt_head(scan, /)\n--\n\n"
                       "(text of the metadata or None, ids of the phases) of one rank.");
static PyObject *head(PyObject *module, PyObject *capsule)
{
    (void)module;
    const plb_vt_scan_t *s = scan_of(capsule);
    if (s == NULL) {
        return NULL;
    }
    PyObject *ids = PyList_New((Py_ssize_t)s->n_phases);
    for (int64_t i = 0; ids != NULL && i < s->n_phases; i++) {
        PyObject *id = PyLong_FromLongLong(s->phases[i].id);
        if (id == NULL) {
            Py_CLEAR(ids);
            break;
        }
        PyList_SET_ITEM(ids, (Py_ssize_t)i, id);
    }
    if (ids == NULL) {
        return NULL;
    }
    const Py_ssize_t size = (Py_ssize_t)(s->metadata.end - s->metadata.begin);
    return Py_BuildValue("z#N", size == 0 ? NULL : s->text + s->metadata.begin, size, ids);
}

/* ---- the ranks joined ----------------------------------------------------------------------- */

#define NPY_OF(pointer)                                                                           \
    _Generic((pointer),                                                                           \
        int64_t *: NPY_INT64,                                                                     \
        int32_t *: NPY_INT32,                                                                     \
        uint8_t *: NPY_UINT8,                                                                     \
        bool *: NPY_BOOL,                                                                         \
        double *: NPY_FLOAT64)

/* Hand one array of the run over to the dict; 0 or -1. */
static int give(PyObject *out, const char *name, void *data, int64_t n, int type)
{
    PyObject *array = plb_py_take(data, (npy_intp)n, type);
    const int ret = array == NULL ? -1 : PyDict_SetItemString(out, name, array);
    Py_XDECREF(array);
    return ret;
}

static PyObject *run_dict(plb_vt_run_t *run)
{
    static const char *const user[] = {
#define X(name) #name,
        PLB_VT_USER(X)
#undef X
    };
    PyObject *out = PyDict_New();
    int failed = out == NULL;
#define X(name, ctype, length)                                                                    \
    if (!failed) {                                                                                \
        ctype *data = run->name;                                                                  \
        run->name = NULL;                                                                         \
        failed = give(out, #name, data, run->n_##length, NPY_OF(data)) != 0;                      \
    }
    PLB_VT_RUN(X)
#undef X
    for (int k = 0; !failed && k < PLB_VT_N_USER; k++) {
        if (run->user[k] != NULL) {
            double *data = run->user[k];
            run->user[k] = NULL;
            failed = give(out, user[k], data, run->n_tasks, NPY_FLOAT64) != 0;
        }
    }
    if (failed) {
        Py_CLEAR(out);
    }
    return out;
}

/* The scans of a list of capsules, for plb_free; NULL with an exception. */
static const plb_vt_scan_t **scans_of(PyObject *list)
{
    const Py_ssize_t n = PyList_GET_SIZE(list);
    const plb_vt_scan_t **files = plb_malloc((size_t)n, sizeof *files);
    if (files == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        files[i] = scan_of(PyList_GET_ITEM(list, i));
        if (files[i] == NULL) {
            plb_free(files);
            return NULL;
        }
    }
    return files;
}

PyDoc_STRVAR(merge_doc,
             "vt_merge(scans, source, /)\n--\n\n"
             "Join the scans of ranks 0 ... n-1; phase i of the run is phase source[i] of the\n"
             "files.  Returns a dict of read-only arrays, see csrc/explore/vt.h.");
static PyObject *merge(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *list, *source, *out = NULL;
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &list, &source)) {
        return NULL;
    }
    plb_py_held_t held = {0};
    PyArrayObject *phases = plb_py_hold(&held, source, NPY_INT64, 1);
    const plb_vt_scan_t **files = phases == NULL ? NULL : scans_of(list);
    if (files != NULL) {
        const int32_t n_files = (int32_t)PyList_GET_SIZE(list);
        plb_vt_run_t run;
        plb_err_t err;
        int ret;
        Py_BEGIN_ALLOW_THREADS ret =
            plb_vt_merge(&run, files, n_files, PyArray_DATA(phases), PyArray_SIZE(phases), &err);
        Py_END_ALLOW_THREADS out = ret == PLB_OK ? run_dict(&run) : plb_py_raise(ret, &err);
        plb_vt_run_free(&run);
    }
    plb_free(files);
    plb_py_release(&held);
    return out;
}

/* ---- another placement ---------------------------------------------------------------------- */

typedef struct held_plan {
    plb_vt_plan_t plan;
    const plb_vt_scan_t **files;
    PyObject *list; /* keeps the scans */
} held_plan_t;

static const char plan_name[] = "pylb._core.vt_plan";

static void free_plan(PyObject *capsule)
{
    held_plan_t *held = PyCapsule_GetPointer(capsule, plan_name);
    plb_vt_plan_free(&held->plan);
    plb_free(held->files);
    Py_XDECREF(held->list);
    plb_free(held);
}

static int make_plan(held_plan_t *out, plb_py_held_t *held, PyObject *args)
{
    PyObject *object[5];
    Py_ssize_t n_entities;
    PyArrayObject *array[5]; /* source, task_entity, comm_src, comm_dst, rank */
    if (!PyArg_ParseTuple(args, "O!nOOOOO", &PyList_Type, &out->list, &n_entities, &object[0],
                          &object[1], &object[2], &object[3], &object[4])) {
        out->list = NULL;
        return -1;
    }
    Py_INCREF(out->list);
    for (int i = 0; i < 5; i++) {
        array[i] = plb_py_hold(held, object[i], i == 0 ? NPY_INT64 : NPY_INT32, 1);
        if (array[i] == NULL) {
            return -1;
        }
    }
    out->files = scans_of(out->list);
    if (out->files == NULL) {
        return -1;
    }
    const plb_vt_run_t run = {.n_entities = n_entities,
                              .task_entity = PyArray_DATA(array[1]),
                              .comm_src = PyArray_DATA(array[2]),
                              .comm_dst = PyArray_DATA(array[3])};
    const int32_t n_files = (int32_t)PyList_GET_SIZE(out->list);
    plb_err_t err;
    int ret;
    Py_BEGIN_ALLOW_THREADS ret =
        plb_vt_plan_init(&out->plan, out->files, n_files, PyArray_DATA(array[0]),
                         PyArray_SIZE(array[0]), &run, PyArray_DATA(array[4]), &err);
    Py_END_ALLOW_THREADS if (ret != PLB_OK)
    {
        plb_py_raise(ret, &err);
    }
    return ret;
}

PyDoc_STRVAR(plan_doc,
             "vt_plan(scans, n_entities, source, task_entity, comm_src, comm_dst, rank, /)\n--\n\n"
             "How the run of these scans is written under the placement rank[tasks].");
static PyObject *plan(PyObject *module, PyObject *args)
{
    (void)module;
    held_plan_t *out = plb_calloc(1, sizeof *out);
    if (out == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(out, plan_name, free_plan);
    if (capsule == NULL) {
        plb_free(out);
        return NULL;
    }
    plb_py_held_t held = {0};
    if (make_plan(out, &held, args) != 0) {
        Py_CLEAR(capsule);
    }
    plb_py_release(&held);
    return capsule;
}

PyDoc_STRVAR(write_doc, "vt_write(plan, rank, /)\n--\n\n"
                        "The text of one rank's file, bytes.  The GIL is released.");
static PyObject *write_text(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    int r;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &r)) {
        return NULL;
    }
    const held_plan_t *held = PyCapsule_GetPointer(capsule, plan_name);
    if (held == NULL) {
        return NULL;
    }
    if (r < 0 || r >= held->plan.n_files) {
        return PyErr_Format(PyExc_IndexError, "rank is %d: expected 0 ... %d", r,
                            (int)held->plan.n_files - 1);
    }
    char *text = NULL;
    size_t size = 0;
    plb_err_t err;
    int ret;
    Py_BEGIN_ALLOW_THREADS ret = plb_vt_write(&held->plan, r, &text, &size, &err);
    Py_END_ALLOW_THREADS if (ret != PLB_OK)
    {
        return plb_py_raise(ret, &err);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
    plb_free(text);
    return bytes;
}

static PyObject *texts(const char *const *names, size_t n)
{
    PyObject *out = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; out != NULL && i < n; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL) {
            Py_CLEAR(out);
        } else {
            PyTuple_SET_ITEM(out, (Py_ssize_t)i, name);
        }
    }
    return out;
}

static PyMethodDef methods[] = {
    {"vt_scan", scan, METH_VARARGS, scan_doc},         {"vt_head", head, METH_O, head_doc},
    {"vt_merge", merge, METH_VARARGS, merge_doc},      {"vt_plan", plan, METH_VARARGS, plan_doc},
    {"vt_write", write_text, METH_VARARGS, write_doc}, {0},
};

/* The tuples that give the codes of entity_type, comm_type and the user columns their texts. */
static int add_texts(PyObject *module)
{
#define X(name, text) text,
    static const char *const entities[] = {PLB_VT_ENTITY_TYPES(X)};
    static const char *const comms[] = {PLB_VT_COMM_TYPES(X)};
#undef X
#define X(name) #name,
    static const char *const user[] = {PLB_VT_USER(X)};
#undef X
    const struct {
        const char *name;
        PyObject *value;
    } rows[] = {
        {"VT_ENTITY_TYPES", texts(entities, sizeof entities / sizeof *entities)},
        {"VT_COMM_TYPES", texts(comms, sizeof comms / sizeof *comms)},
        {"VT_USER", texts(user, sizeof user / sizeof *user)},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        failed |= rows[i].value == NULL ||
                  PyModule_AddObjectRef(module, rows[i].name, rows[i].value) != 0;
        Py_XDECREF(rows[i].value);
    }
    return failed ? -1 : 0;
}

int plb_py_add_vt(PyObject *module)
{
    return add_texts(module) != 0 ? -1 : PyModule_AddFunctions(module, methods);
}
