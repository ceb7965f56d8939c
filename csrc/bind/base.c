/* Room base: what the core was built with. */
#include "bind/views.h"

#include "base/finite.h"

PyDoc_STRVAR(simd_doc, "simd()\n--\n\n"
                       "{'cpu': what the processor offers, 'compiled': what the core may use}.");
static PyObject *simd(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("{ssss}", "cpu", plb_cpu_simd(), "compiled", plb_cpu_compiled());
}

PyDoc_STRVAR(all_finite_doc, "all_finite(x, /)\n--\n\n"
                             "Whether no number of an array of float64 is infinite or NaN.");
static PyObject *all_finite(PyObject *module, PyObject *object)
{
    (void)module;
    PyArrayObject *x =
        (PyArrayObject *)PyArray_FROMANY(object, NPY_FLOAT64, 0, 0, NPY_ARRAY_IN_ARRAY);
    if (x == NULL) {
        return NULL;
    }
    const bool good = plb_all_finite(PyArray_DATA(x), PyArray_SIZE(x));
    Py_DECREF(x);
    return PyBool_FromLong(good);
}

static PyMethodDef methods[] = {
    {"simd", simd, METH_NOARGS, simd_doc},
    {"all_finite", all_finite, METH_O, all_finite_doc},
    {0},
};

int plb_py_add_base(PyObject *module)
{
    return PyModule_AddStringConstant(module, "version", PLB_VERSION) ||
           PyModule_AddStringConstant(module, "compiler", PLB_COMPILER) ||
           PyModule_AddFunctions(module, methods);
}
