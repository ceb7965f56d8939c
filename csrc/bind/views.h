/* What all bindings share: calls from Python, NumPy arrays as C arrays and back, error codes as
 * exceptions, Python types that hold a C struct.
 *
 * Every file of this folder includes this header.  Before that, the main file of a module that
 * uses NumPy defines PLB_PY_MAIN.  A binding reads its arguments, makes its outputs, makes one
 * call of the core, and gives the answer:
 *
 *     PLB_PY_DEF(fn, home, "ids n_ranks", "Return the rank that ...")
 *     {
 *         const int64_t *id;
 *         int64_t n = -1;
 *         int32_t n_ranks;
 *         PLB_PASS(PLB_READ(c, PLB_MANY(&id, &n), PLB_ONE(&n_ranks)));
 *         int32_t *rank = plb_py_new(c, NPY_INT32, n);
 *         PLB_PASS(PLB_PY_UNLOCKED(c, homes(id, n, n_ranks, rank, &c->err)));
 *         return plb_py_answer(c, plb_py_out(c, rank));
 *     }
 *
 * The views, outputs and memory that `c` holds are released when the function returns.  A function
 * of this folder that fails returns NULL, or a code other than 0; it has set an exception, or
 * written a message into c->err, which then becomes an exception. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define PY_ARRAY_UNIQUE_SYMBOL plb_array_api
#ifndef PLB_PY_MAIN
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#ifndef NPY_2_0_API_VERSION
#error "pylb is compiled with the headers of NumPy 2; the result also runs with NumPy 1.26"
#endif

#include "base/base.h"
#include "plb.h"

/* ---- one call from Python ------------------------------------------------------------------- */

/* Largest numbers of arrays, and of blocks from plb_py_memory, that a call can hold. */
enum { PLB_PY_MAX_HELD = 64, PLB_PY_MAX_MEMORY = 8 };
typedef struct plb_py_held {
    PyArrayObject *array[PLB_PY_MAX_HELD];
    int n;
} plb_py_held_t;

/* Where values are read from: arguments, or the attributes of an object. */
typedef struct plb_py_source {
    PyObject *const *args; /* [n_args], then the values of the keywords */
    /* n_read, n_keywords: numbers of positional arguments and of keywords read so far */
    Py_ssize_t n_args, n_read, n_keywords;
    PyObject *keywords, *kwargs; /* a tuple of names, and a dict; at least one is NULL */
    bool by_keyword;             /* whether a `*` was read already */
    PyObject *object;
} plb_py_source_t;

/* The head of a bound type's struct, instead of PyObject_HEAD. */
#define PLB_PY_HEAD                                                                               \
    PyObject_HEAD const char *within; /* the method that runs without the GIL; NULL: none */      \
    unsigned long thread;             /* the thread that runs it */
typedef struct plb_py_object {
    PLB_PY_HEAD
} plb_py_object_t;

/* A function or method, which PLB_PY_DEF defines. */
typedef struct plb_py_def {
    const char *name, *spec, *text;
    PyObject *(*call)(PyObject *object, PyObject *const *args, Py_ssize_t n_args,
                      PyObject *keywords);
} plb_py_def_t;

typedef struct plb_py_call {
    plb_py_object_t *self; /* the object whose method is called; NULL: a function */
    const char *name;      /* name of the method */
    const char *spec;      /* the arguments that were not read yet */
    PyObject *arg;         /* the only argument, if `spec` begins with "!" */
    PyObject *answer;      /* NULL: None */
    plb_py_source_t source;
    plb_py_held_t held;
    void *memory[PLB_PY_MAX_MEMORY];
    int n_memory;
    PyThreadState *state;  /* state of the thread while the GIL is released */
    plb_interrupt_t outer; /* the previous setting of base/base.h, which plb_py_lock restores:
                              if this call is in a callback, the setting of the outer call */
    int code;
    plb_err_t err;
} plb_py_call_t;

/** Begin a call of a method, a function, or a constructor (`def` NULL).  Fails while another
 * thread is in a method of `object` without the GIL.  plb_py_end releases what the call holds, and
 * returns its answer, or raises the exception if `failed` is not 0. */
int plb_py_begin(plb_py_call_t *c, const plb_py_def_t *def, PyObject *object,
                 plb_py_source_t source);
PyObject *plb_py_end(plb_py_call_t *c, int failed);
void plb_py_release(plb_py_held_t *held);

/** Set the answer of the call (stolen); fails if it is NULL. */
int plb_py_answer(plb_py_call_t *c, PyObject *answer);

/* Where the value of an argument goes; its C type says how the value is read. */
typedef struct plb_py_arg {
    int kind;   /* a letter, see PLB_PY_KIND; 0: the end of a table */
    void *to;   /* the target */
    int64_t *n; /* number of entries of an array */
} plb_py_arg_t;

/* A letter for each type of a target: numbers, bool, text, any object, plb_exact_t, an array of
 * int32 or int64 (plb_ints_t); capital letters: an array of numbers, which may be written in place
 * (PLB_PY_IN_PLACE).  The compiler refuses an array without a length, and a number with one. */
enum { PLB_PY_IN_PLACE = 128 };
#define PLB_PY_KIND(pointer)                                                                      \
    _Generic((pointer),                                                                           \
        double *: 'd',                                                                            \
        int64_t *: 'l',                                                                           \
        int32_t *: 'i',                                                                           \
        uint64_t *: 'k',                                                                          \
        uint32_t *: 'u',                                                                          \
        bool *: 'p',                                                                              \
        const char **: 's',                                                                       \
        PyObject **: 'o',                                                                         \
        plb_exact_t *: 'x')
#define PLB_PY_KINDS(pointer)                                                                     \
    _Generic((pointer),                                                                           \
        plb_ints_t *: 'N',                                                                        \
        const double **: 'D',                                                                     \
        const int64_t **: 'L',                                                                    \
        const int32_t **: 'I',                                                                    \
        const uint8_t **: 'U',                                                                    \
        const bool **: 'P',                                                                       \
        double **: 'D' | PLB_PY_IN_PLACE,                                                         \
        int64_t **: 'L' | PLB_PY_IN_PLACE,                                                        \
        int32_t **: 'I' | PLB_PY_IN_PLACE)

/** Read the next arguments of the call, one for each entry of the table:
 *
 *     PLB_ONE(&x)         a number, text or object
 *     PLB_MANY(&x, &n)    an array with n entries; a negative n is set to the array's length.  A
 *                         copy is made only if dtype or layout requires one; the call holds it
 *
 * The spec of a function, method or type, "name name:flags ...=default", names the arguments in
 * order; help() shows it as a signature.  Flags:
 *
 *     ?       the argument may be None: the target becomes NULL (an int64_t: INT64_MAX)
 *     2 ... 9 a sequence of 2 ... 9 numbers; the target is a double[]
 *     T L     a tuple, a list
 *     +       an array has one entry more than n
 *     @       an array may have any shape; without it: one dimension
 *     =text   at the end: the argument is optional.  If it is absent, the target keeps its value,
 *             which must be the default `text` that help() shows
 *
 * The arguments after `*` are keyword-only.  `...`: the next PLB_READ reads the rest.  "!name":
 * the only argument is c->arg, which is not converted. */
#define PLB_READ(c, ...) plb_py_read((c), PLB_TABLE(__VA_ARGS__))
#define PLB_TABLE(...) ((const plb_py_arg_t[]){__VA_ARGS__, {0}})
#define PLB_ONE(pointer)                                                                          \
    {                                                                                             \
        PLB_PY_KIND(pointer), (void *)(pointer), NULL                                             \
    }
#define PLB_MANY(pointer, n)                                                                      \
    {                                                                                             \
        PLB_PY_KINDS(pointer), (void *)(pointer), (n)                                             \
    }
int plb_py_read(plb_py_call_t *c, const plb_py_arg_t *args);

/** Like plb_py_read, but read the items of a tuple, or the attributes of an object. */
int plb_py_items(plb_py_call_t *c, PyObject *tuple, const char *spec, const plb_py_arg_t *args);
int plb_py_fields(plb_py_call_t *c, PyObject *object, const char *spec, const plb_py_arg_t *args);

/** Call the C core without the GIL; the value is its code.  The call is not made if an exception
 * is pending, e.g. because there is no output array. */
#define PLB_PY_UNLOCKED(c, call)                                                                  \
    (PyErr_Occurred() == NULL && plb_py_unlock(c)                                                 \
         ? ((c)->code = (call), plb_py_lock(c), (c)->code)                                        \
         : ((c)->code = -1))

/** Release the GIL, and let Ctrl-C end long loops in C; plb_py_lock takes the GIL again.  In a
 * method, return false, with an exception, if its object is in such a call already: then this
 * thread is in a function of the user that the core has called. */
bool plb_py_unlock(plb_py_call_t *c);
void plb_py_lock(plb_py_call_t *c);

/** Check for signals while the GIL is released: PLB_OK, or PLB_ERR_INTERRUPTED with an exception.
 * arg: the address of the thread's state. */
int plb_py_tick(void *arg);

/** Check for signals while this thread has the GIL: raise the exception of the signal's handler
 * (in the main thread), or KeyboardInterrupt if the list under this key of the thread's dictionary
 * has an item. */
static const char plb_py_stop_key[] = "pylb_stop";
int plb_py_check_signals(void);

/** Raise the Python exception of an error code (base/base.h); return NULL.  An exception that is
 * already pending, e.g. of a callback, is kept. */
PyObject *plb_py_raise(int code, const plb_err_t *err);

/** plb_py_fail: raise the exception of a code with a message; return -1.  plb_py_refuse: if
 * `wrong`, raise an exception of this type, and return -1; else return 0. */
int plb_py_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int plb_py_refuse(bool wrong, PyObject *type, const char *format, ...);

/** Raise MemoryError with a message; returns NULL. */
PyObject *plb_py_no_memory(void);

/* ---- outputs -------------------------------------------------------------------------------- */

/** Make a new array of n (rows times cols) entries, which the call holds, and return its memory;
 * NULL with an exception: PLB_PY_UNLOCKED then fails. */
void *plb_py_new(plb_py_call_t *c, int type, int64_t n);
void *plb_py_new2(plb_py_call_t *c, int type, int64_t rows, int64_t cols);

/** Return a new reference to the array whose memory is `data`, from plb_py_new; NULL gives None.
 * plb_py_sealed: the array is then read-only. */
PyObject *plb_py_out(plb_py_call_t *c, const void *data);
PyObject *plb_py_sealed(plb_py_call_t *c, const void *data);

/** Copy data to a new array of n (rows times cols) entries; plb_py_copy: NULL gives None. */
PyObject *plb_py_copy(const void *data, int64_t n, int type);
PyObject *plb_py_copy2(const void *data, int64_t rows, int64_t cols, int type);

/** Copy data[n] to a new read-only array, and free `data` (from plb_malloc); NULL gives None. */
PyObject *plb_py_take(void *data, int64_t n, int type);

/** Return zeroed memory that lives as long as the call `c`. */
void *plb_py_memory(plb_py_call_t *c, int64_t n, size_t size);

/* ---- views of structs and lists ------------------------------------------------------------- */

/* X(name, type, count): the arrays of a snapshot, for n objects with d loads each, p ranks with v
 * speeds each, m edges, c multicasts with `pins` receivers in all, and b shared blocks. */
#define PLB_PY_SNAPSHOT(X)                                                                        \
    X(load, NPY_FLOAT64, n *d)                                                                    \
    X(rank, NPY_INT32, n)                                                                         \
    X(key, NPY_INT64, n)                                                                          \
    X(nbytes, NPY_INT64, n)                                                                       \
    X(memory, NPY_INT64, n)                                                                       \
    X(migratable, NPY_BOOL, n)                                                                    \
    X(coords, NPY_FLOAT64, n * 3)                                                                 \
    X(edge_src, NPY_INT32, m)                                                                     \
    X(edge_dst, NPY_INT32, m)                                                                     \
    X(edge_bytes, NPY_FLOAT64, m)                                                                 \
    X(edge_messages, NPY_FLOAT64, m)                                                              \
    X(multicast_src, NPY_INT32, c)                                                                \
    X(multicast_start, NPY_INT64, c + 1)                                                          \
    X(multicast_dst, NPY_INT32, pins)                                                             \
    X(multicast_bytes, NPY_FLOAT64, c)                                                            \
    X(multicast_messages, NPY_FLOAT64, c)                                                         \
    X(block, NPY_INT32, n)                                                                        \
    X(block_bytes, NPY_INT64, b)                                                                  \
    X(home, NPY_INT32, b)                                                                         \
    X(speed, NPY_FLOAT64, p *v)                                                                   \
    X(background, NPY_FLOAT64, p)                                                                 \
    X(memory_limit, NPY_INT64, p)                                                                 \
    X(node_memory_limit, NPY_INT64, p)                                                            \
    X(node, NPY_INT32, p)                                                                         \
    X(near, NPY_FLOAT64, 2)

/** Whether start[n + 1] begins with 0, ends with `end` and never decreases. */
bool plb_py_rises(const int64_t *start, int64_t n, int64_t end);

/** View a contiguous array, without a copy.  plb_py_in_place: `object` must be writable and have n
 * entries of this type.  plb_py_records: it must have records of `size` bytes.  Borrowed. */
void *plb_py_in_place(PyObject *object, const char *name, int type, int64_t n);
PyArrayObject *plb_py_records(PyObject *object, size_t size, bool writable);

/** View a list of str (name, value, ...) as an array of texts; *n_options: number of pairs.  The
 * texts belong to the list, the array to the call.  NULL or None: nothing is set. */
int plb_py_options(plb_py_call_t *c, PyObject *list, const char *const **option, int *n_options);

/* ---- functions and types -------------------------------------------------------------------- */

/* The head of a bound function: of the module (`owner` is `fn`), or a method of owner##_t.  The
 * body gets the call `c` and, in a method, the object `self`; it returns 0 or a code.  The table
 * of the module or type lists &owner##_##name, and ends with NULL.  The first line of help() is
 * made from name and spec (see PLB_READ). */
typedef void fn_t;
#define PLB_PY_DEF(owner, name, spec, text)                                                       \
    static int owner##_##name##_body(owner##_t *self, plb_py_call_t *c);                          \
    static PyObject *owner##_##name##_call(PyObject *object, PyObject *const *args,               \
                                           Py_ssize_t n_args, PyObject *keywords);                \
    static const plb_py_def_t owner##_##name = {#name, spec, text, owner##_##name##_call};        \
    static PyObject *owner##_##name##_call(PyObject *object, PyObject *const *args,               \
                                           Py_ssize_t n_args, PyObject *keywords)                 \
    {                                                                                             \
        plb_py_call_t c;                                                                          \
        const plb_py_source_t source = {.args = args, .n_args = n_args, .keywords = keywords};    \
        const int failed = plb_py_begin(&c, &owner##_##name, object, source);                     \
        return plb_py_end(&c, failed ? failed : owner##_##name##_body((owner##_t *)object, &c));  \
    }                                                                                             \
    static int owner##_##name##_body(owner##_t *self __attribute__((unused)),                     \
                                     plb_py_call_t *c __attribute__((unused)))

/* Define type##_getset, from a table of X(type, name, value, doc); `value` uses `self`. */
#define PLB_PY_GETTER(type, name, value, text)                                                    \
    static PyObject *type##_get_##name(PyObject *object, void *unused __attribute__((unused)))    \
    {                                                                                             \
        const type##_t *self = (const type##_t *)object;                                          \
        return (value);                                                                           \
    }
#define PLB_PY_GETSET(type, name, value, text) {#name, type##_get_##name, NULL, text, NULL},
#define PLB_PY_PROPERTIES(type, TABLE)                                                            \
    TABLE(PLB_PY_GETTER)                                                                          \
    static PyGetSetDef type##_getset[] = {TABLE(PLB_PY_GETSET){0}};

/* A bound type, whose constructor reads its arguments by `what`, a spec.  More slots may follow.
 * The file defines
 *   - type##_init(self, c), which fills a zeroed type##_t,
 *   - type##_fini(self), which frees what `self` owns, also if type##_init has failed,
 *   - type##_methods, a table of definitions that ends with NULL. */
#define PLB_PY_TYPE(type, full_name, what, text, ...)                                             \
    static PyObject *type##_new(PyTypeObject *of, PyObject *args, PyObject *kwargs)               \
    {                                                                                             \
        plb_py_call_t c;                                                                          \
        const plb_py_source_t source = {.args = &PyTuple_GET_ITEM(args, 0),                       \
                                        .n_args = PyTuple_GET_SIZE(args),                         \
                                        .kwargs = kwargs};                                        \
        (void)plb_py_begin(&c, NULL, NULL, source);                                               \
        c.spec = (what);                                                                          \
        c.answer = of->tp_alloc(of, 0);                                                           \
        return plb_py_end(&c, c.answer == NULL ? -1 : type##_init((type##_t *)c.answer, &c));     \
    }                                                                                             \
    static void type##_dealloc(PyObject *object)                                                  \
    {                                                                                             \
        PyTypeObject *of = Py_TYPE(object);                                                       \
        if (PyType_IS_GC(of)) {                                                                   \
            PyObject_GC_UnTrack(object);                                                          \
        }                                                                                         \
        type##_fini((type##_t *)object);                                                          \
        of->tp_free(object);                                                                      \
        Py_DECREF(of);                                                                            \
    }                                                                                             \
    static PyType_Slot type##_slots[] = {{Py_tp_doc, (void *)(what "\0" text)},                   \
                                         {Py_tp_new, type##_new},                                 \
                                         {Py_tp_dealloc, type##_dealloc},                         \
                                         {Py_tp_methods, (void *)type##_methods},                 \
                                         __VA_ARGS__{0, NULL}};                                   \
    static PyType_Spec type##_spec = {full_name, sizeof(type##_t), 0,                             \
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,              \
                                      type##_slots};

/* What a file of this folder adds to its module: methods, types, and what `more` adds. */
typedef struct plb_py_room {
    const plb_py_def_t *const *methods; /* ends with NULL; NULL: none */
    PyType_Spec *types[6];
    int (*more)(PyObject *module);
} plb_py_room_t;

int plb_py_add(PyObject *module, const plb_py_room_t *room);

/** Add an attribute (stolen; NULL: an exception is pending) to a module. */
int plb_py_add_value(PyObject *module, const char *name, PyObject *value);
int plb_py_add_functions(PyObject *module, const plb_py_def_t *const *methods);

/** Define the module `name`, which `exec` fills.  PLB_PY_MODULE: also its PyInit_ function. */
static inline PyObject *plb_py_module(const char *name, const char *text,
                                      int (*exec)(PyObject *module))
{
    static PyModuleDef_Slot slots[3]; /* each library has one module */
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_slots = slots};
    slots[0] = (PyModuleDef_Slot){Py_mod_exec, exec};
#ifdef Py_mod_multiple_interpreters
    slots[1] = (PyModuleDef_Slot){Py_mod_multiple_interpreters,
                                  Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED};
#endif
    definition.m_name = name;
    definition.m_doc = text;
    return PyModuleDef_Init(&definition);
}
#define PLB_PY_MODULE(name, text, exec)                                                           \
    PyMODINIT_FUNC PyInit_##name(void);                                                           \
    PyMODINIT_FUNC PyInit_##name(void)                                                            \
    {                                                                                             \
        return plb_py_module("pylb." #name, text, exec);                                          \
    }

/* C structs as Python dicts and tuples, and back, from tables of their fields.
 *
 * A table is a static array that ends with {0}, usually made by the X-macro that also makes the
 * struct:
 *
 *     #define X(name, unit, help) PLB_PY_FIELD(plb_metrics_t, name),
 *     static const plb_py_field_t fields[] = {PLB_METRICS(X){0}};
 *     #undef X
 */

typedef struct plb_py_field {
    const char *name; /* Python sees what follows the last dot */
    int kind;         /* a letter, see PLB_PY_KIND */
    size_t offset;
} plb_py_field_t;

#define PLB_PY_FIELD(type, member)                                                                \
    {                                                                                             \
#member, PLB_PY_KIND(&((type *)NULL)->member), offsetof(type, member)                     \
    }

PyObject *plb_py_dict(const plb_py_field_t *fields, const void *from);
PyObject *plb_py_tuple(const plb_py_field_t *fields, const void *from);

/** Put `value` (stolen; NULL: an exception is pending) into a dict under `name`. */
int plb_py_put(PyObject *dict, const char *name, PyObject *value);

/** Fill a struct from a tuple of values. */
int plb_py_fill(plb_py_call_t *c, const plb_py_field_t *fields, PyObject *values, void *to);

/** Return n structs of `size` bytes each as a list of tuples. */
PyObject *plb_py_rows(const plb_py_field_t *fields, const void *from, int64_t n, size_t size);

/** Return a list as a tuple, and release the list.  NULL gives NULL. */
PyObject *plb_py_as_tuple(PyObject *list);

/** Append `value` (stolen) to *list.  On failure, or if `value` is NULL, release the list and set
 * *list to NULL. */
void plb_py_append(PyObject **list, PyObject *value);

PyObject *plb_py_names(const char *const *names, size_t n);

/** Return a new tuple with (name, default, minimum, maximum, unit, help) of each parameter. */
PyObject *plb_py_params(const plb_param_t *params, int n);

PyObject *plb_py_metrics(const plb_metrics_t *metrics);

/* ---- what single files offer the others ----------------------------------------------------- */

/** View a pylb.Snapshot, or any object with the same attributes, as a C struct. */
int plb_py_snapshot(plb_py_call_t *c, PyObject *object, plb_snapshot_t *out);

/** Get a strategy from the table by name, or make one from a callable f(snapshot), which gets a
 * pylb.Snapshot of copies, and returns a rank for each object.  `object` must exist as long as
 * `out` is used. */
int plb_py_strategy(PyObject *object, plb_strategy_t *out);

/** Read strategies from a tuple of (what, name, refinement, looks_at, params); what: a name in the
 * table of strategies, or a callable.  The result lives as long as the call, and borrows the
 * names. */
plb_candidate_strategy_t *plb_py_candidates(plb_py_call_t *c, PyObject *rows);

/** The core of a pylb._core.Advisor. */
plb_advisor_t *plb_py_advisor(PyObject *object);

/** Read a rank's contribution to the statistics from a tuple: kind, iteration, arguments, failed,
 * n_objects, loads (array), idle, messages, message_bytes, time, cost, n_changed, n_rebalanced,
 * messages_open, background, phases, n_phases, hidden.  The call then holds no arrays. */
int plb_py_sample(plb_py_call_t *c, PyObject *sample, int rank, plb_stats_t *out);

/** Return a record of statistics as a tuple: the fields of PLB_STATS in order, then whether
 * PLB_STATS_MIXED is set.  plb_py_record: read such a tuple, which has rounded the exact sums. */
PyObject *plb_py_stats(const plb_stats_t *record);
int plb_py_record(plb_py_call_t *c, PyObject *tuple, plb_stats_t *out);

/** Return the C struct of a pylb.Trigger or of a pylb._core.Decider. */
plb_trigger_t *plb_py_trigger(PyObject *object);
plb_decider_t *plb_py_decider(PyObject *object);

int plb_py_clock(const char *name, plb_clock_t *out);

/** Return the C struct of a pylb._core.Keys. */
const plb_keys_t *plb_py_keys(PyObject *object);

/** Return the reductions in `capsule`.  If it is None, set up `alone` for a single rank and up to
 * `depth` reductions at a time, and return it. */
static const char plb_py_reduction_name[] = "pylb.reduction"; /* name of the capsules */
const plb_reduction_t *plb_py_reduction(plb_py_call_t *c, PyObject *capsule,
                                        plb_reduction_t *alone, int depth);
