/* Room base: what the core was built with. */
#include "views.h"

PyDoc_STRVAR(simd_doc, "simd()\n--\n\n"
                       "{'cpu': what the processor offers, 'compiled': what the core may use}.");
static PyObject *simd(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("{ssss}", "cpu", plb_cpu_simd(), "compiled", plb_cpu_compiled());
}

static PyMethodDef methods[] = {
    {"simd", simd, METH_NOARGS, simd_doc},
    {0},
};

int plb_py_add_base(PyObject *module)
{
    return PyModule_AddStringConstant(module, "version", PLB_VERSION) ||
           PyModule_AddStringConstant(module, "compiler", PLB_COMPILER) ||
           PyModule_AddFunctions(module, methods);
}
