/* Python binding of csrc/io: recorded runs of the runtime system vt. */
#include "bind/convert.h"
#include "bind/rooms.h"

typedef struct scan {
    PLB_PY_HEAD Py_buffer text; /* buffer of the object with the text, e.g. mmap or bytes */
    plb_vt_scan_t core;
} scan_t;

static int scan_init(scan_t *self, plb_py_call_t *c)
{
    PyObject *text;
    const char *name;
    PLB_PY_PASS(plb_py_parse(c, &text, &name));
    PLB_PY_PASS(PyObject_GetBuffer(text, &self->text, PyBUF_SIMPLE));
    const size_t size = (size_t)self->text.len;
    return plb_py_check(
        c, PLB_PY_UNLOCKED(c, plb_vt_scan(&self->core, self->text.buf, size, name, &c->err)));
}

static void scan_fini(scan_t *self)
{
    plb_vt_scan_free(&self->core);
    PyBuffer_Release(&self->text);
}

static PyMethodDef scan_methods[] = {{0}};

PLB_PY_TYPE(
    scan, "pylb._core.vt_scan", "text:O name:s",
    "An index of the text of one rank's LBDatafile.  text: a buffer, which the index keeps.\n"
    "name: the file's name for error messages.  The GIL is released.", )

static const plb_vt_scan_t *scan_of(PyObject *object)
{
    PLB_PY_RAISE_IF(!PLB_PY_IS(scan, object), PyExc_TypeError, "scan is %R: expected a vt_scan",
                    object);
    return &((scan_t *)object)->core;
}

PLB_PY_FN1(vt_head, scan, "Return (text of the metadata or None, ids of the phases) of one rank.")
{
    const plb_vt_scan_t *s = scan_of(scan);
    PyObject *ids = s ? PyList_New(0) : NULL;
    for (int64_t i = 0; ids != NULL && i < s->n_phases; i++) {
        plb_py_append(&ids, PyLong_FromLongLong(s->phases[i].id));
    }
    PLB_PY_GET(ids);
    const Py_ssize_t size = (Py_ssize_t)(s->metadata.end - s->metadata.begin);
    return Py_BuildValue("z#N", size == 0 ? NULL : s->text + s->metadata.begin, size, ids);
}

#define NPY_OF(pointer)                                                                           \
    _Generic((pointer),                                                                           \
        int64_t *: NPY_INT64,                                                                     \
        int32_t *: NPY_INT32,                                                                     \
        uint8_t *: NPY_UINT8,                                                                     \
        bool *: NPY_BOOL,                                                                         \
        double *: NPY_FLOAT64)

#define X(name) #name,
static const char *const user_columns[] = {PLB_VT_USER(X)};
#undef X

static PyObject *run_dict(plb_vt_run_t *run)
{
    PyObject *out = PyDict_New();
    int failed = out == NULL;
#define X(name, ctype, length)                                                                    \
    if (!failed) {                                                                                \
        ctype *data = run->name;                                                                  \
        run->name = NULL;                                                                         \
        failed = plb_py_put(out, #name, plb_py_take(data, run->n_##length, NPY_OF(data)));        \
    }
    PLB_VT_RUN(X)
#undef X
    for (int k = 0; !failed && k < PLB_VT_N_USER; k++) {
        if (run->user[k] != NULL) {
            double *data = run->user[k];
            run->user[k] = NULL;
            failed =
                plb_py_put(out, user_columns[k], plb_py_take(data, run->n_tasks, NPY_FLOAT64));
        }
    }
    if (failed) {
        Py_CLEAR(out);
    }
    return out;
}

/* Return the scans of a list, in an array that the caller frees. */
static const plb_vt_scan_t **scans_of(PyObject *list)
{
    const Py_ssize_t n = PyList_GET_SIZE(list);
    const plb_vt_scan_t **files = plb_malloc((size_t)n, sizeof *files);
    if (files == NULL) {
        plb_py_no_memory();
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

PLB_PY_FN(vt_merge, "scans:L source:i8",
          "Join the scans of ranks 0 ... n-1; phase i of the run is phase source[i] of the\n"
          "files.  Returns a dict of read-only arrays, see csrc/io/vt_merge.h.")
{
    PyObject *list, *out;
    const int64_t *source;
    int64_t n = -1;
    plb_vt_run_t run;
    PLB_PY_TRY(plb_py_parse(c, &list, &source, &n));
    const plb_vt_scan_t **files = scans_of(list);
    PLB_PY_GET(files);
    const int32_t n_files = (int32_t)PyList_GET_SIZE(list);
    out = PLB_PY_UNLOCKED(c, plb_vt_merge(&run, files, n_files, source, n, &c->err))
              ? plb_py_fail(c)
              : run_dict(&run);
    plb_vt_run_free(&run);
    plb_free(files);
    return out;
}

typedef struct plan {
    PLB_PY_HEAD plb_vt_plan_t core;
    const plb_vt_scan_t **files;
    PyObject *list; /* the list of scans, which must exist as long as the plan */
} plan_t;

static int plan_init(plan_t *self, plb_py_call_t *c)
{
    plb_vt_run_t run = {0};
    PyObject *list;
    const int64_t *source;
    const int32_t *task_entity, *comm_src, *comm_dst, *rank;
    int64_t n = -1, n_tasks = -1, n_comms = -1;
    PLB_PY_PASS(plb_py_parse(c, &list, &run.n_entities, &source, &n, &task_entity, &n_tasks,
                             &comm_src, &n_comms, &comm_dst, &n_comms, &rank, &n_tasks));
    self->list = Py_NewRef(list);
    PLB_PY_PASS((self->files = scans_of(list)) == NULL);
    run.task_entity = (int32_t *)task_entity; /* the arrays of `run` are only read */
    run.comm_src = (int32_t *)comm_src;
    run.comm_dst = (int32_t *)comm_dst;
    const int32_t n_files = (int32_t)PyList_GET_SIZE(list);
    return plb_py_check(c, PLB_PY_UNLOCKED(c, plb_vt_plan_init(&self->core, self->files, n_files,
                                                               source, n, &run, rank, &c->err)));
}

static void plan_fini(plan_t *self)
{
    plb_vt_plan_free(&self->core);
    plb_free(self->files);
    Py_XDECREF(self->list);
}

static PyMethodDef plan_methods[] = {{0}};

PLB_PY_TYPE(plan, "pylb._core.vt_plan",
            "scans:L n_entities:l source:i8 task_entity:i4 comm_src:i4 comm_dst:i4 rank:i4",
            "Prepares to write the run of these scans, with task i in the file of rank[i].", )

PLB_PY_FN(vt_write, "plan:O rank:i",
          "Return the text of one rank's file as bytes.  The GIL is released.")
{
    PyObject *object;
    int32_t r;
    char *text = NULL;
    size_t size = 0;
    PLB_PY_TRY(plb_py_parse(c, &object, &r));
    PLB_PY_RAISE_IF(!PLB_PY_IS(plan, object), PyExc_TypeError, "plan is %R: expected a vt_plan",
                    object);
    const plb_vt_plan_t *plan = &((plan_t *)object)->core;
    PLB_PY_RAISE_IF(r < 0 || r >= plan->n_files, PyExc_IndexError, "rank is %d: expected 0 ... %d",
                    (int)r, (int)plan->n_files - 1);
    PLB_PY_RUN(c, plb_vt_write(plan, r, &text, &size, &c->err));
    PyObject *bytes = PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
    plb_free(text);
    return bytes;
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, vt_head, vt_merge, vt_write);

static int constants(PyObject *module)
{
#define X(name, text) text,
    static const char *const entities[] = {PLB_VT_ENTITY_TYPES(X)};
    static const char *const comms[] = {PLB_VT_COMM_TYPES(X)};
#undef X
    return PLB_PY_ADD_NAMES(module, "VT_ENTITY_TYPES", entities) ||
           PLB_PY_ADD_NAMES(module, "VT_COMM_TYPES", comms) ||
           PLB_PY_ADD_NAMES(module, "VT_USER", user_columns);
}

const plb_py_room_t plb_py_io = {methods, {&scan_spec, &plan_spec}, constants};
