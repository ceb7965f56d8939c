/* Room base: what the core was built with, clocks, exact sums. */
#include <math.h>

#include "base/finite.h"
#include "bind/convert.h"
#include "bind/rooms.h"

PLB_PY_FN0(simd,
           "simd()\n--\n\n{'cpu': what the processor offers, 'compiled': what the core may use}.")
{
    return Py_BuildValue("{ssss}", "cpu", plb_cpu_simd(), "compiled", plb_cpu_compiled());
}

PLB_PY_FN1(all_finite, "all_finite(x, /)\n--\n\n"
                       "Return whether all numbers of a float64 array are finite.")
{
    PyArrayObject *x =
        (PyArrayObject *)PyArray_FROMANY(arg, NPY_FLOAT64, 0, 0, NPY_ARRAY_IN_ARRAY);
    if (x == NULL) {
        return NULL;
    }
    const bool good = plb_all_finite(PyArray_DATA(x), PyArray_SIZE(x));
    Py_DECREF(x);
    return PyBool_FromLong(good);
}

PLB_PY_FN1(exact_sum,
           "exact_sum(values, /)\n--\n\n"
           "Return the exact sum of values in [0, 1e30], rounded once, as the statistics sum\n"
           "seconds.")
{
    PyArrayObject *a = plb_py_hold(&c->held, arg, NPY_FLOAT64, 1);
    if (a == NULL) {
        return PyErr_Occurred() ? NULL : plb_py_raise(PLB_ERR_VALUE, &c->err);
    }
    const double *x = PyArray_DATA(a);
    plb_exact_t sum = {{0}};
    npy_intp i, n = PyArray_SIZE(a);
    for (i = 0; i < n && x[i] >= 0.0 && x[i] <= 1e30; i++) {
        plb_exact_add(&sum, x[i]);
    }
    return i == n ? PyFloat_FromDouble(plb_exact_value(&sum))
                  : PyErr_Format(PyExc_ValueError, "values[%zd]: expected 0 ... 1e30", i);
}

PLB_PY_FN0(clock,
           "clock()\n--\n\n"
           "Return the seconds of a clock that never steps back: the machine's, or that of\n"
           "the virtual rank that this thread runs.")
{
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(PLB_CLOCK_WALL));
}

PLB_PY_FN0(cpu_clock,
           "cpu_clock()\n--\n\n"
           "Return the processor seconds of this thread, or the time of the virtual rank that\n"
           "it runs.")
{
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(PLB_CLOCK_CPU));
}

PLB_PY_FN(clock_enter,
          "clock_enter(source, seconds, pace, /)\n--\n\n"
          "Give this thread a clock of its own, which shows `seconds` now and runs `pace`\n"
          "times as fast as the source, \"wall\", \"cpu\" or \"none\".")
{
    const char *source;
    double seconds, pace;
    if (plb_py_parse(c, "source:s seconds:d pace:d", &source, &seconds, &pace) != 0) {
        return NULL;
    }
    plb_clock_enter(*source == 'w'   ? PLB_CLOCK_WALL
                    : *source == 'c' ? PLB_CLOCK_CPU
                                     : PLB_CLOCK_NONE,
                    llround(1e9 * seconds), pace);
    Py_RETURN_NONE;
}

PLB_PY_FN0(clock_leave,
           "clock_leave()\n--\n\n"
           "Return this thread to the machine's clock.  Returns the time of its own clock.")
{
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_leave());
}

PLB_PY_FN1(clock_declare, "clock_declare(seconds, /)\n--\n\n"
                          "Advance this thread's own clock by so many seconds.")
{
    const double s = PyFloat_AsDouble(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    plb_clock_declare(llround(1e9 * s));
    Py_RETURN_NONE;
}

PLB_PY_FN(last_words,
          "last_words(seconds, text, ends, /)\n--\n\n"
          "Write a text to standard error after so many seconds, unless the process has\n"
          "ended by then; `ends`: then end it with code 1.")
{
    const char *text;
    double seconds;
    bool ends;
    if (plb_py_parse(c, "seconds:d text:s ends:p", &seconds, &text, &ends) != 0) {
        return NULL;
    }
    plb_last_words(seconds, text, ends);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    PLB_PY_ENTRY(fn, last_words),    PLB_PY_ENTRY(fn, simd),
    PLB_PY_ENTRY(fn, all_finite),    PLB_PY_ENTRY(fn, exact_sum),
    PLB_PY_ENTRY(fn, clock),         PLB_PY_ENTRY(fn, cpu_clock),
    PLB_PY_ENTRY(fn, clock_enter),   PLB_PY_ENTRY(fn, clock_leave),
    PLB_PY_ENTRY(fn, clock_declare), {0},
};

static int constants(PyObject *module)
{
#define X(name, code, class, help) class,
    static const char *const errors[] = {PLB_ERRORS(X)};
#undef X
    return PLB_PY_ADD_NAMES(module, "ERRORS", errors) ||
           PyModule_AddStringConstant(module, "version", PLB_VERSION) ||
           PyModule_AddStringConstant(module, "compiler", PLB_COMPILER);
}

const plb_py_room_t plb_py_base = {methods, {NULL}, constants};
