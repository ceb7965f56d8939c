/* Room partition: the libraries that have been loaded, and one question to one of them. */
#include "bind/library.h"
#include "bind/views.h"

PyDoc_STRVAR(install_doc, "install(partitioner, /)\n--\n\n"
                          "Make a library known, by the capsule of its module.");
static PyObject *install(PyObject *module, PyObject *capsule)
{
    (void)module;
    plb_err_t err = {0, ""};
    const plb_partitioner_t *library = PyCapsule_GetPointer(capsule, PLB_PY_PARTITIONER);
    if (library == NULL) {
        return NULL;
    }
    const int ret = plb_partitioner_install(library, &err);
    if (ret != PLB_OK) {
        return plb_py_raise(ret, &err);
    }
    Py_RETURN_NONE;
}

typedef struct arguments {
    PyObject *weight, *share, *start, *to, *edge_weight, *net_start, *pin, *net_weight, *coords;
    PyObject *fixed, *old, *old_cost, *part, *options;
} arguments_t;

/* Entries of an array, 0 for None; -1 with an exception. */
static int64_t entries(PyObject *object)
{
    return object == Py_None ? 0 : (int64_t)PyObject_Size(object);
}

static int fill(plb_py_held_t *held, const arguments_t *a, plb_question_t *q)
{
    const int64_t n = q->n_vertices, k = q->n_parts, m = entries(a->to), pins = entries(a->pin);
    const int64_t nets = a->net_start == Py_None ? 0 : entries(a->net_start) - 1;
    if (PyErr_Occurred()) {
        return -1;
    }
    q->n_nets = (int32_t)nets;
#define VIEW(name, type, count)                                                                   \
    if (plb_py_view(held, a->name, #name, type, count, (const void **)&q->name) != 0) {           \
        return -1;                                                                                \
    }
    VIEW(weight, NPY_INT32, n * q->n_weights)
    VIEW(share, NPY_FLOAT64, k)
    VIEW(start, NPY_INT32, n + 1)
    VIEW(to, NPY_INT32, m)
    VIEW(edge_weight, NPY_INT32, m)
    VIEW(net_start, NPY_INT32, nets + 1)
    VIEW(pin, NPY_INT32, pins)
    VIEW(net_weight, NPY_INT32, nets)
    VIEW(coords, NPY_FLOAT64, n * q->n_dims)
    VIEW(fixed, NPY_INT32, n)
    VIEW(old, NPY_INT32, n)
    VIEW(old_cost, NPY_INT32, n)
#undef VIEW
    if ((q->start != NULL && q->start[n] != m) ||
        (q->net_start != NULL && q->net_start[nets] != pins)) {
        PyErr_Format(PyExc_ValueError, "%s: expected its last entry to be the length of %s",
                     q->start != NULL && q->start[n] != m ? "start" : "net_start",
                     q->start != NULL && q->start[n] != m ? "to" : "pin");
        return -1;
    }
    return 0;
}

/* The library's answer (NULL: part[] as it comes), then V-cycles over it. */
static int answer(const plb_partitioner_t *library, const plb_question_t *q, int32_t cycles,
                  PyThreadState **state, int32_t *part, plb_err_t *err)
{
    int ret =
        library != NULL ? plb_partition_run(library, q, part, err) : plb_partition_check(q, err);
    for (int32_t v = 0; ret == PLB_OK && v < q->n_vertices; v++) {
        if (part[v] < 0 || part[v] >= q->n_parts) {
            ret = PLB_FAIL(err, PLB_ERR_RANGE, "part[%d] is %d: expected 0 ... %d", v, part[v],
                           q->n_parts - 1);
        }
    }
    if (ret == PLB_OK && cycles >= 0) {
        ret = plb_partition_improve(q, cycles, plb_py_tick, state, part, err);
        ret = ret == PLB_OK ? plb_partition_keep_shares(q, part, err) : ret;
    }
    return ret;
}

PyDoc_STRVAR(
    partition_doc,
    "partition(library, vertices, parts, *, n_weights=1, n_dims=0, weight=None, share=None,\n"
    "          start=None, to=None, edge_weight=None, net_start=None, pin=None,\n"
    "          net_weight=None, coords=None, fixed=None, old=None, old_cost=None, part=None,\n"
    "          imbalance=1.03, seed=0, cycles=-1, options=[])\n--\n\n"
    "The part of each vertex, from a library that has been installed, or (None) from `part`; "
    "with\n"
    "`cycles` refined by that many V-cycles.  csrc/partition/question.h has the arguments.\n"
    "Arrays of int32 (share and coords: float64) are not copied; options is [name, value, ...].\n"
    "The GIL is released.");
static PyObject *partition(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"library",   "vertices", "parts",      "n_weights", "n_dims",
                            "weight",    "share",    "start",      "to",        "edge_weight",
                            "net_start", "pin",      "net_weight", "coords",    "fixed",
                            "old",       "old_cost", "part",       "imbalance", "seed",
                            "cycles",    "options",  NULL};
    const char *name;
    int cycles = -1;
    plb_question_t q = {.n_weights = 1, .imbalance = 1.03};
    PyObject *no = Py_None, *result = NULL;
    arguments_t a = {no, no, no, no, no, no, no, no, no, no, no, no, no, NULL};
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "zii|$iiOOOOOOOOOOOOOdiiO!", names, &name, &q.n_vertices, &q.n_parts,
            &q.n_weights, &q.n_dims, &a.weight, &a.share, &a.start, &a.to, &a.edge_weight,
            &a.net_start, &a.pin, &a.net_weight, &a.coords, &a.fixed, &a.old, &a.old_cost, &a.part,
            &q.imbalance, &q.seed, &cycles, &PyList_Type, &a.options)) {
        return NULL;
    }
    plb_err_t error = {0, ""}, *err = &error;
    plb_py_held_t held = {0};
    int32_t *part = NULL;
    const int32_t *given = NULL;
    int ret = PLB_OK;
    const char **option = NULL;
    const plb_partitioner_t *library = name == NULL ? NULL : plb_partitioner_find(name);
    if (name != NULL && library == NULL) {
        ret = PLB_FAIL(err, PLB_ERR_MISSING, "%s has not been loaded", name);
        goto out;
    }
    if ((a.options != NULL && (option = plb_py_texts(a.options)) == NULL) ||
        fill(&held, &a, &q) != 0 ||
        plb_py_view(&held, a.part, "part", NPY_INT32, q.n_vertices, (const void **)&given) != 0) {
        ret = PLB_ERR_CALLBACK;
        goto out;
    }
    if ((library == NULL) != (given != NULL)) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE, "library and part: expected one of them");
        goto out;
    }
    q.option = option;
    q.n_options = a.options == NULL ? 0 : (int)(PyList_GET_SIZE(a.options) / 2);
    PLB_NEW(part, q.n_vertices);
    if (given != NULL) {
        memcpy(part, given, (size_t)q.n_vertices * sizeof *part);
    }
    PyThreadState *state = PyEval_SaveThread();
    ret = answer(library, &q, cycles, &state, part, err);
    PyEval_RestoreThread(state);
out:
    if (ret == PLB_OK) {
        result = plb_py_take(part, q.n_vertices, NPY_INT32);
    } else {
        plb_free(part);
        plb_py_raise(ret, err);
    }
    PyMem_Free(option);
    plb_py_release(&held);
    return result;
}

PyDoc_STRVAR(connectivity_doc,
             "connectivity(net_start, pin, net_weight, part, parts, /)\n--\n\n"
             "Sum over the nets of weight * (parts touched - 1); arrays of int32.");
static PyObject *connectivity(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object[4];
    int parts;
    if (!PyArg_ParseTuple(args, "OOOOi", &object[0], &object[1], &object[2], &object[3], &parts)) {
        return NULL;
    }
    plb_err_t err = {0, ""};
    plb_py_held_t held = {0};
    int32_t *data[4] = {NULL, NULL, NULL, NULL};
    int64_t out = 0;
    PyObject *result = NULL;
    for (int i = 0; i < 4; i++) {
        PyArrayObject *array = plb_py_hold(&held, object[i], NPY_INT32, 1);
        if (array == NULL) {
            goto out;
        }
        data[i] = PyArray_DATA(array);
    }
    const plb_question_t check = {.n_vertices = (int32_t)PyArray_SIZE(held.array[3]),
                                  .n_parts = parts,
                                  .n_weights = 1,
                                  .n_nets = (int32_t)PyArray_SIZE(held.array[0]) - 1,
                                  .net_start = data[0],
                                  .pin = data[1],
                                  .net_weight = data[2],
                                  .fixed = data[3],
                                  .imbalance = 2.0};
    if (check.n_nets < 0 || data[0][check.n_nets] != PyArray_SIZE(held.array[1]) ||
        check.n_nets != PyArray_SIZE(held.array[2])) {
        PyErr_SetString(PyExc_ValueError, "net_start, pin and net_weight do not fit together");
        goto out;
    }
    const plb_hypergraph_t hg = {.n_vertices = check.n_vertices,
                                 .n_nets = check.n_nets,
                                 .net_start = data[0],
                                 .pin = data[1],
                                 .net_weight = data[2]};
    int ret = plb_partition_check(&check, &err);
    for (int32_t v = 0; ret == PLB_OK && v < check.n_vertices; v++) {
        if (data[3][v] < 0) { /* the rest has been checked */
            ret = PLB_FAIL(&err, PLB_ERR_RANGE, "part[%d] is %d: expected zero or more", v,
                           data[3][v]);
        }
    }
    ret = ret == PLB_OK ? plb_hypergraph_connectivity(&hg, data[3], parts, &out, &err) : ret;
    result = ret == PLB_OK ? PyLong_FromLongLong(out) : plb_py_raise(ret, &err);
out:
    plb_py_release(&held);
    return result;
}

static PyMethodDef methods[] = {
    {"install", install, METH_O, install_doc},
    {"partition", (PyCFunction)(void (*)(void))partition, METH_VARARGS | METH_KEYWORDS,
     partition_doc},
    {"connectivity", connectivity, METH_VARARGS, connectivity_doc},
    {0},
};

int plb_py_add_partition(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
