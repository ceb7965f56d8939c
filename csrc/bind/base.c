/* Python binding of csrc/base: how the C code was compiled, clocks, exact sums. */
#include <math.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/base.h"
#include "bind/views.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

PLB_PY_DEF(fn, exact_sum, "values", "Return the exact sum of values in [0, 1e30], rounded once.")
{
    const double *x;
    int64_t i, n = -1;
    PLB_PASS(PLB_READ(c, PLB_MANY(&x, &n)));
    plb_exact_t sum = {{0}};
    for (i = 0; i < n && x[i] >= 0.0 && x[i] <= 1e30; i++) {
        plb_exact_add(&sum, x[i]);
    }
    return plb_py_answer(
        c, i == n ? PyFloat_FromDouble(plb_exact_value(&sum))
                  : PyErr_Format(PyExc_ValueError, "values[%zd]: expected 0 ... 1e30", i));
}

PLB_PY_DEF(fn, trim, "", "Give freed memory back to the operating system.")
{
    plb_mem_trim();
    return PLB_OK;
}

PLB_PY_DEF(fn, stop_when, "stop:L",
           "Make this thread's calls of the C core raise KeyboardInterrupt as soon as another\n"
           "thread has put an item into the list `stop`.")
{
    PyObject *list, *dict = PyThreadState_GetDict();
    PLB_PASS(PLB_READ(c, PLB_ONE(&list)));
    return dict == NULL ? -1 : PyDict_SetItemString(dict, plb_py_stop_key, list);
}

PLB_PY_DEF(fn, check_signals, "",
           "Raise the exception that a signal or stop_when() has caused, if there is one.")
{
    return plb_py_check_signals();
}

PLB_PY_DEF(fn, clock, "", "Return seconds, which never step back; on a virtual rank, its own.")
{
    return plb_py_answer(c, PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(PLB_CLOCK_WALL)));
}

int plb_py_clock(const char *name, plb_clock_t *out)
{
    if (plb_clock_named(name, out)) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "clock is '%.100s': expected auto, wall, cpu, mpi or none",
                 name);
    return -1;
}

PLB_PY_DEF(fn, load_clock, "name",
           "Return the seconds of a clock (plb_clock_t); on a virtual rank, the rank's own time.")
{
    const char *name;
    plb_clock_t clock;
    PLB_PASS(PLB_READ(c, PLB_ONE(&name)));
    PLB_PASS(plb_py_clock(name, &clock));
    return plb_py_answer(c, PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(clock)));
}

PLB_PY_DEF(fn, mpi_clock, "", "Return whether the clock \"mpi\" has seen a call; None: no clock.")
{
    const plb_mpi_clock_t clock = plb_clock_frame.on ? PLB_NO_PMPI : plb_mpi_clock();
    return plb_py_answer(c, clock == PLB_NO_PMPI ? Py_NewRef(Py_None)
                                                 : PyBool_FromLong(clock == PLB_PMPI_SEES));
}

PLB_PY_DEF(fn, run_delay, "", "Return the seconds of waits for a core; 0: not known.")
{
    return plb_py_answer(
        c, PyFloat_FromDouble(plb_clock_frame.on ? 0.0 : 1e-9 * (double)plb_run_delay_ns()));
}

PLB_PY_DEF(fn, clock_enter, "source seconds pace", "Give this thread a clock of its own.")
{
    const char *source;
    double seconds, pace;
    plb_clock_t clock;
    PLB_PASS(PLB_READ(c, PLB_ONE(&source), PLB_ONE(&seconds), PLB_ONE(&pace)));
    PLB_PASS(plb_py_clock(source, &clock));
    plb_clock_enter(clock, llround(1e9 * seconds), pace);
    return PLB_OK;
}

PLB_PY_DEF(fn, clock_leave, "", "End this thread's own clock; return its seconds.")
{
    return plb_py_answer(c, PyFloat_FromDouble(1e-9 * (double)plb_clock_leave()));
}

PLB_PY_DEF(fn, clock_declare, "seconds", "Advance this thread's own clock by `seconds` seconds.")
{
    double s;
    PLB_PASS(PLB_READ(c, PLB_ONE(&s)));
    plb_clock_declare(llround(1e9 * s));
    return PLB_OK;
}

/* Prints a message, and may end the process, if the process still exists some seconds after the
 * user's program has finished.  This reports a deadlock: the process waits in MPI_Finalize, while
 * other ranks wait for this process in another call. */
static char said[512];
static volatile sig_atomic_t length, is_the_end;

static void on_alarm(int signal_number)
{
    const ssize_t written = write(STDERR_FILENO, said, (size_t)length);
    (void)written;
    if (is_the_end) {
        _exit(1);
    }
}

PLB_PY_DEF(
    fn, last_words, "seconds text ends",
    "Write a text to standard error after `seconds` seconds, if the process still exists then.")
{
    const char *text;
    double seconds;
    bool ends;
    PLB_PASS(PLB_READ(c, PLB_ONE(&seconds), PLB_ONE(&text), PLB_ONE(&ends)));
    const long whole = (long)seconds, rest = (long)(1e6 * (seconds - (double)whole));
    const struct itimerval timer = {.it_value = {whole, rest > 0 || whole > 0 ? rest : 1}};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    snprintf(said, sizeof said, "%.500s\n", text);
    length = (sig_atomic_t)strlen(said);
    is_the_end = ends;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    return PLB_OK;
}

PLB_PY_DEF(fn, cores, "", "Return host, cores and quota of this process, for crowd().")
{
    plb_cores_t here;
    plb_cores_here(&here);
    return plb_py_answer(c, PyBytes_FromStringAndSize((const char *)&here, sizeof here));
}

PLB_PY_DEF(fn, crowd, "all rank",
           "Return (n_ranks, n_cores, words, capped, group, cores), see pylb.comm.cores.Cores.")
{
    PyObject *all;
    int32_t rank;
    plb_crowd_t crowd;
    PLB_PASS(PLB_READ(c, PLB_ONE(&all), PLB_ONE(&rank)));
    const Py_ssize_t size = (Py_ssize_t)sizeof(plb_cores_t);
    const int32_t p = PyBytes_Check(all) ? (int32_t)(PyBytes_GET_SIZE(all) / size) : 0;
    PLB_PASS(plb_py_refuse(
        rank < 0 || rank >= p || PyBytes_GET_SIZE(all) % size != 0, PyExc_ValueError,
        "expected all: the bytes of cores() of every rank, and rank: one of these ranks"));
    const plb_cores_t *here = (const plb_cores_t *)PyBytes_AS_STRING(all);
    int32_t *group = plb_py_new(c, NPY_INT32, p);
    double *cores = plb_py_new(c, NPY_FLOAT64, p);
    PLB_PASS(group == NULL || cores == NULL);
    PLB_PASS(plb_cores_groups(here, p, group, cores, &c->err));
    PLB_PASS(plb_cores_crowd(here, p, &crowd, &c->err));
    return plb_py_answer(c, Py_BuildValue("idsNNN", crowd.n_ranks, crowd.n_cores, crowd.words,
                                          PyBool_FromLong(plb_cores_capped(here, p, rank)),
                                          plb_py_out(c, group), plb_py_out(c, cores)));
}

typedef struct watch {
    PLB_PY_HEAD plb_clock_t clock;
} watch_t;

static int watch_init(watch_t *self, plb_py_call_t *c)
{
    const char *name;
    PLB_PASS(PLB_READ(c, PLB_ONE(&name)));
    return plb_py_clock(name, &self->clock);
}

static void watch_fini(watch_t *self)
{
}

PLB_PY_DEF(watch, use, "name", "Read this clock from now on.")
{
    return watch_init(self, c);
}

PLB_PY_DEF(watch, seconds, "", "Return the seconds of the clock; the first value has no meaning.")
{
    return plb_py_answer(c, PyFloat_FromDouble(1e-9 * (double)plb_clock_ns(self->clock)));
}

static const plb_py_def_t *const watch_methods[] = {&watch_use, &watch_seconds, NULL};

PLB_PY_TYPE(watch, "pylb._core.Clock", "name", "A clock of load_clock(), which is read faster.", )

static const plb_py_def_t *const methods[] = {
    &fn_last_words,  &fn_exact_sum,     &fn_trim,      &fn_clock,         &fn_load_clock,
    &fn_mpi_clock,   &fn_run_delay,     &fn_cores,     &fn_crowd,         &fn_clock_enter,
    &fn_clock_leave, &fn_clock_declare, &fn_stop_when, &fn_check_signals, NULL};

static int constants(PyObject *module)
{
    return PyModule_AddStringConstant(module, "version", PLB_VERSION) ||
           PyModule_AddStringConstant(module, "compiler", COMPILER);
}

const plb_py_room_t plb_py_base = {methods, {&watch_spec}, constants};
