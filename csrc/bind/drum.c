/* Room machine: the power of its places, and how fast a place is. */
#include "bind/views.h"

PyDoc_STRVAR(power_doc, "drum_power(parent, cpu, comm, w_comm, /)\n--\n\n"
                        "Share of each place of a tree, parents first; the root has 1.");
static PyObject *drum_power(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *parent, *cpu, *comm, *out = NULL;
    double w_comm;
    plb_py_held_t held = {0};
    plb_err_t err;
    if (!PyArg_ParseTuple(args, "OOOd", &parent, &cpu, &comm, &w_comm)) {
        return NULL;
    }
    PyArrayObject *a = plb_py_hold(&held, parent, NPY_INT32, 1);
    PyArrayObject *b = a ? plb_py_hold(&held, cpu, NPY_FLOAT64, 1) : NULL;
    PyArrayObject *c = b ? plb_py_hold(&held, comm, NPY_FLOAT64, 1) : NULL;
    npy_intp n = c ? PyArray_SIZE(a) : 0;
    if (n > 0 && PyArray_SIZE(b) == n && PyArray_SIZE(c) == n) {
        const plb_drum_t tree = {n, PyArray_DATA(a), PyArray_DATA(b), PyArray_DATA(c)};
        out = PyArray_SimpleNew(1, &n, NPY_FLOAT64);
        const int ret =
            out == NULL ? PLB_OK
                        : plb_drum_power(&tree, w_comm, PyArray_DATA((PyArrayObject *)out), &err);
        if (ret != PLB_OK) {
            Py_CLEAR(out);
            plb_py_raise(ret, &err);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "parent, cpu, comm: expected arrays of one length");
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(benchmark_doc, "drum_benchmark(seconds, /)\n--\n\n"
                            "Compute for so long: steps, seconds, seconds of them on a core.");
static PyObject *drum_benchmark(PyObject *module, PyObject *arg)
{
    (void)module;
    const double seconds = PyFloat_AsDouble(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    double cpu = 0.0, steps;
    int64_t start = plb_clock_real_ns(PLB_CLOCK_WALL);
    Py_BEGIN_ALLOW_THREADS;
    steps = plb_drum_benchmark(seconds < 10.0 ? seconds : 10.0, &cpu);
    Py_END_ALLOW_THREADS;
    const double wall = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_WALL) - start);
    return Py_BuildValue("ddd", steps, wall, cpu);
}

static PyMethodDef methods[] = {
    {"drum_power", drum_power, METH_VARARGS, power_doc},
    {"drum_benchmark", drum_benchmark, METH_O, benchmark_doc},
    {0},
};

int plb_py_add_drum(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
