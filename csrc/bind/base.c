/* Python binding of csrc/base: how the C code was compiled, clocks, exact sums. */
#include <math.h>

#include "base/finite.h"
#include "bind/convert.h"
#include "bind/rooms.h"

PLB_PY_FN0(simd,
           "Return {'cpu': vector instructions of this processor, 'compiled': of the C core}.")
{
    return Py_BuildValue("{ssss}", "cpu", plb_cpu_simd(), "compiled", plb_cpu_compiled());
}

PLB_PY_FN1(all_finite, x, "Return whether all numbers of a float64 array are finite.")
{
    PyArrayObject *a = (PyArrayObject *)PyArray_FROMANY(x, NPY_FLOAT64, 0, 0, NPY_ARRAY_IN_ARRAY);
    PLB_PY_GET(a);
    const bool good = plb_all_finite(PyArray_DATA(a), PyArray_SIZE(a));
    Py_DECREF(a);
    return PyBool_FromLong(good);
}

PLB_PY_FN(exact_sum, "values:f8", "Return the exact sum of values in [0, 1e30], rounded once.")
{
    const double *x;
    int64_t i, n = -1;
    PLB_PY_TRY(plb_py_parse(c, &x, &n));
    plb_exact_t sum = {{0}};
    for (i = 0; i < n && x[i] >= 0.0 && x[i] <= 1e30; i++) {
        plb_exact_add(&sum, x[i]);
    }
    return i == n ? PyFloat_FromDouble(plb_exact_value(&sum))
                  : PyErr_Format(PyExc_ValueError, "values[%zd]: expected 0 ... 1e30", i);
}

PLB_PY_FN0(trim, "Give freed memory back to the operating system.")
{
    plb_mem_trim();
    Py_RETURN_NONE;
}

PLB_PY_FN(stop_when, "stop:L",
          "Make this thread's calls of the C core raise KeyboardInterrupt as soon as another\n"
          "thread has put an item into the list `stop`.")
{
    PyObject *list;
    PLB_PY_TRY(plb_py_parse(c, &list));
    PLB_PY_TRY(plb_py_stop_when(list));
    Py_RETURN_NONE;
}

PLB_PY_FN0(check_signals,
           "Raise the exception that a signal or stop_when() has caused, if there is one.")
{
    PLB_PY_TRY(plb_py_check_signals());
    Py_RETURN_NONE;
}

PLB_PY_FN0(clock,
           "Return seconds of a clock that never steps back; on a virtual rank, the rank's clock.")
{
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(PLB_CLOCK_WALL));
}

int plb_py_clock(const char *name, plb_clock_t *out)
{
    if (plb_clock_named(name, out)) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "clock is '%.100s': expected auto, wall, cpu or none", name);
    return -1;
}

PLB_PY_FN(
    load_clock, "name:s",
    "Return the seconds of the clock \"wall\", \"cpu\" or \"auto\" (elapsed time without\n"
    "waits for a core); on a virtual rank, the rank's own time.  \"none\" shows 0 elsewhere.")
{
    const char *name;
    plb_clock_t clock;
    PLB_PY_TRY(plb_py_parse(c, &name));
    PLB_PY_TRY(plb_py_clock(name, &clock));
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(clock));
}

PLB_PY_FN0(run_delay,
           "Return for how many seconds this thread has waited for a core so far; 0 on a virtual\n"
           "rank, and if the kernel does not count them.")
{
    return PyFloat_FromDouble(plb_clock_frame.on ? 0.0 : 1e-9 * (double)plb_run_delay_ns());
}

PLB_PY_FN(clock_enter, "source:s seconds:d pace:d",
          "Give this thread a clock of its own.  It shows `seconds` now, and runs `pace` times\n"
          "as fast as the source: \"wall\", \"cpu\" or \"none\".")
{
    const char *source;
    double seconds, pace;
    plb_clock_t clock;
    PLB_PY_TRY(plb_py_parse(c, &source, &seconds, &pace));
    PLB_PY_TRY(plb_py_clock(source, &clock));
    plb_clock_enter(clock, llround(1e9 * seconds), pace);
    Py_RETURN_NONE;
}

PLB_PY_FN0(clock_leave, "End this thread's own clock, and return its final time in seconds.")
{
    return PyFloat_FromDouble(1e-9 * (double)plb_clock_leave());
}

PLB_PY_FN(clock_declare, "seconds:d", "Advance this thread's own clock by `seconds` seconds.")
{
    double s;
    PLB_PY_TRY(plb_py_parse(c, &s));
    plb_clock_declare(llround(1e9 * s));
    Py_RETURN_NONE;
}

PLB_PY_FN(last_words, "seconds:d text:s ends:p",
          "Write a text to standard error after `seconds` seconds, if the process still exists\n"
          "then.  ends: True: the process then ends with code 1; False: it continues.")
{
    const char *text;
    double seconds;
    bool ends;
    PLB_PY_TRY(plb_py_parse(c, &seconds, &text, &ends));
    plb_last_words(seconds, text, ends);
    Py_RETURN_NONE;
}

PLB_PY_FN0(cores, "Return, as bytes for crowd(), the host, cores and quota of this process.")
{
    plb_cores_t here;
    plb_cores_here(&here);
    return PyBytes_FromStringAndSize((const char *)&here, sizeof here);
}

PLB_PY_FN(crowd, "all:O rank:i",
          "Return (n_ranks, n_cores, words, capped).  all: the cores() of all ranks, joined.\n"
          "The first three describe the group of ranks with the fewest cores per rank; words:\n"
          "e.g. \"4 ranks share 2 cores\", or empty if there is a core for each rank.  capped:\n"
          "whether a quota limits rank `rank` and no other rank.")
{
    PyObject *all;
    int32_t rank;
    plb_crowd_t crowd;
    PLB_PY_TRY(plb_py_parse(c, &all, &rank));
    const Py_ssize_t size = (Py_ssize_t)sizeof(plb_cores_t);
    const Py_ssize_t p = PyBytes_Check(all) ? PyBytes_GET_SIZE(all) / size : 0;
    PLB_PY_RAISE_IF(rank < 0 || rank >= p || PyBytes_GET_SIZE(all) % size != 0, PyExc_ValueError,
                    "all: expected the bytes of cores() of each rank; rank: one of these ranks");
    const plb_cores_t *cores = (const plb_cores_t *)PyBytes_AS_STRING(all);
    PLB_PY_TRY(plb_py_check(c, plb_cores_crowd(cores, (int32_t)p, &crowd, &c->err)));
    return Py_BuildValue("idsN", crowd.n_ranks, crowd.n_cores, crowd.words,
                         PyBool_FromLong(plb_cores_capped(cores, (int32_t)p, rank)));
}

PLB_PY_FN(core_groups, "all:O",
          "Return (group, cores), (p,) each: the lowest rank of the ranks that share cores with\n"
          "each rank, and the number of these cores.  all: the cores() of all ranks, joined.")
{
    PyObject *all;
    int32_t *group;
    double *cores;
    PLB_PY_TRY(plb_py_parse(c, &all));
    const Py_ssize_t size = (Py_ssize_t)sizeof(plb_cores_t);
    PLB_PY_RAISE_IF(!PyBytes_Check(all) || PyBytes_GET_SIZE(all) % size != 0, PyExc_ValueError,
                    "all: expected the bytes of cores() of each rank");
    const int32_t p = (int32_t)(PyBytes_GET_SIZE(all) / size);
    PLB_PY_GET(group = plb_py_new(c, NPY_INT32, p));
    PLB_PY_GET(cores = plb_py_new(c, NPY_FLOAT64, p));
    const plb_cores_t *known = (const plb_cores_t *)PyBytes_AS_STRING(all);
    PLB_PY_TRY(plb_py_check(c, plb_cores_groups(known, p, group, cores, &c->err)));
    return Py_BuildValue("NN", plb_py_out(c, group), plb_py_out(c, cores));
}

static PyMethodDef methods[] = PLB_PY_METHODS(
    fn, last_words, simd, all_finite, exact_sum, trim, clock, load_clock, run_delay, cores, crowd,
    core_groups, clock_enter, clock_leave, clock_declare, stop_when, check_signals);

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
