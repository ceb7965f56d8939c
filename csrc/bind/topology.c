/* Topologies: hop-bytes, the most loaded link, and parts on places. */
#include "bind/views.h"

#include "model/topology.h"

typedef struct call {
    plb_py_held_t held;
    plb_topology_t machine;
    plb_flows_t flows;
    const int32_t *place, *group;
} call_t;

static int bad_length(const char *name, npy_intp n, npy_intp expected)
{
    PyErr_Format(PyExc_ValueError, "%s has %zd entries: expected %zd", name, n, expected);
    return -1;
}

/* Each entry of a in 0 ... n-1. */
static int check_range(PyArrayObject *a, int32_t n, const char *name)
{
    const int32_t *data = PyArray_DATA(a);
    for (npy_intp k = 0; k < PyArray_SIZE(a); k++) {
        if (data[k] < 0 || data[k] >= n) {
            PyErr_Format(PyExc_IndexError, "%s[%zd] is %d: expected 0 ... %d", name, k, data[k],
                         n - 1);
            return -1;
        }
    }
    return 0;
}

/* A permutation: place[n], each once. */
static int check_places(PyArrayObject *a, int32_t n)
{
    int ret = check_range(a, n, "place");
    char *seen = plb_calloc((size_t)n, 1);
    const int32_t *data = PyArray_DATA(a);
    for (npy_intp k = 0; seen != NULL && ret == 0 && k < PyArray_SIZE(a); k++) {
        if (seen[data[k]]++) {
            PyErr_Format(PyExc_ValueError, "place[%zd] is %d, as another one is", k, data[k]);
            ret = -1;
        }
    }
    if (seen == NULL) {
        PyErr_NoMemory();
        ret = -1;
    }
    plb_free(seen);
    return ret;
}

static int fill(call_t *self, int torus, PyObject *sizes, PyObject *start, PyObject *to,
                PyObject *bytes, PyObject *place)
{
    plb_err_t err = {0, ""};
    PyArrayObject *s = plb_py_hold(&self->held, sizes, NPY_INT64, 1);
    PyArrayObject *a = s ? plb_py_hold(&self->held, start, NPY_INT64, 1) : NULL;
    PyArrayObject *t = a ? plb_py_hold(&self->held, to, NPY_INT32, 1) : NULL;
    PyArrayObject *b = t ? plb_py_hold(&self->held, bytes, NPY_FLOAT64, 1) : NULL;
    PyArrayObject *p = b ? plb_py_hold(&self->held, place, NPY_INT32, 1) : NULL;
    if (p == NULL) {
        return -1;
    }
    const int ret = plb_topology_init(&self->machine, torus ? PLB_TORUS : PLB_TREE,
                                      PyArray_DATA(s), (int)PyArray_SIZE(s), &err);
    if (ret != PLB_OK) {
        plb_py_raise(ret, &err);
        return -1;
    }
    const int32_t n = self->machine.n_places;
    self->flows = (plb_flows_t){PyArray_DATA(a), PyArray_DATA(t), PyArray_DATA(b)};
    self->place = PyArray_DATA(p);
    if (PyArray_SIZE(a) != n + 1) {
        return bad_length("start", PyArray_SIZE(a), n + 1);
    }
    if (PyArray_SIZE(t) != self->flows.start[n]) {
        return bad_length("to", PyArray_SIZE(t), (npy_intp)self->flows.start[n]);
    }
    if (PyArray_SIZE(b) != PyArray_SIZE(t)) {
        return bad_length("bytes", PyArray_SIZE(b), PyArray_SIZE(t));
    }
    if (PyArray_SIZE(p) != n) {
        return bad_length("place", PyArray_SIZE(p), n);
    }
    return check_range(t, n, "to") != 0 || check_places(p, n) != 0 ? -1 : 0;
}

PyDoc_STRVAR(hop_bytes_doc,
             "hop_bytes(torus, sizes, start, to, bytes, place, /)\n--\n\n"
             "Bytes times hops, and bytes over the most loaded link, of flows between parts.");
static PyObject *hop_bytes(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *sizes, *start, *to, *bytes, *place, *out = NULL;
    call_t call = {.held = {.n = 0}};
    plb_err_t err = {0, ""};
    double sum = 0.0, most = 0.0;
    int torus, ret = PLB_OK;
    if (!PyArg_ParseTuple(args, "pOOOOO", &torus, &sizes, &start, &to, &bytes, &place)) {
        return NULL;
    }
    if (fill(&call, torus, sizes, start, to, bytes, place) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        sum = plb_hop_bytes(&call.machine, &call.flows, call.place);
        ret = plb_topology_link(&call.machine, &call.flows, call.place, &most, &err);
        Py_END_ALLOW_THREADS;
        out = ret == PLB_OK ? Py_BuildValue("dd", sum, most) : plb_py_raise(ret, &err);
    }
    plb_py_release(&call.held);
    return out;
}

PyDoc_STRVAR(map_doc, "map_parts(torus, sizes, start, to, bytes, place, group, /)\n--\n\n"
                      "The place of each part with fewer hop-bytes than at `place`.");
static PyObject *map_parts(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *sizes, *start, *to, *bytes, *place, *group, *out = NULL;
    call_t call = {.held = {.n = 0}};
    plb_err_t err_ = {0, ""}, *err = &err_;
    int32_t *answer = NULL;
    int torus, ret = PLB_OK;
    if (!PyArg_ParseTuple(args, "pOOOOOO", &torus, &sizes, &start, &to, &bytes, &place, &group)) {
        return NULL;
    }
    if (fill(&call, torus, sizes, start, to, bytes, place) != 0) {
        goto done;
    }
    const int32_t n = call.machine.n_places;
    PyArrayObject *g = plb_py_hold(&call.held, group, NPY_INT32, 1);
    if (g == NULL || (PyArray_SIZE(g) != n && bad_length("group", PyArray_SIZE(g), n) != 0)) {
        goto done;
    }
    PLB_NEW(answer, n);
    memcpy(answer, call.place, (size_t)n * sizeof *answer);
    PyThreadState *state = PyEval_SaveThread();
    ret = plb_topology_map(&call.machine, &call.flows, PyArray_DATA(g), answer, plb_py_tick,
                           &state, err);
    PyEval_RestoreThread(state);
out:
    if (ret != PLB_OK) {
        plb_free(answer);
        plb_py_raise(ret, err);
    } else {
        out = plb_py_take(answer, n, NPY_INT32);
    }
done:
    plb_py_release(&call.held);
    return out;
}

static PyMethodDef methods[] = {
    {"hop_bytes", hop_bytes, METH_VARARGS, hop_bytes_doc},
    {"map_parts", map_parts, METH_VARARGS, map_doc},
    {0},
};

int plb_py_add_topology(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
