/* What all bindings share: calls from Python, NumPy arrays as C arrays and back, error codes as
 * exceptions, Python types that hold a C struct.
 *
 * Every file of this folder includes this header.  Before that, the main file of a module that
 * uses NumPy defines PLB_PY_MAIN.  A binding reads its arguments, makes its outputs, makes one
 * call of the core and returns:
 *
 *     PLB_PY_FN(home, "ids:i8 n_ranks:i", "Return the rank that ...")
 *     {
 *         const int64_t *id;
 *         int64_t n = -1;
 *         int32_t n_ranks, *rank;
 *         PLB_PY_TRY(plb_py_parse(c, &id, &n, &n_ranks));
 *         PLB_PY_GET(rank = plb_py_new(c, NPY_INT32, n));
 *         PLB_PY_ASIDE(c, homes(id, n, n_ranks, rank));
 *         return plb_py_out(c, rank);
 *     }
 *
 * The views, outputs and memory that `c` holds are released when the function returns.  Functions
 * of this folder that fail set an exception, and return NULL or -1. */
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

typedef struct plb_py_call {
    plb_py_object_t *self; /* the object whose method is called; NULL: a function */
    const char *name;      /* of the method */
    const char *spec;      /* the arguments that were not read yet */
    plb_py_source_t source;
    plb_py_held_t held;
    void *memory[PLB_PY_MAX_MEMORY];
    int n_memory;
    PyThreadState *state;  /* of the thread, while the GIL is released */
    plb_interrupt_t outer; /* the previous setting of base/interrupt.h, which plb_py_lock restores:
                              if this call is in a callback, the setting of the outer call */
    int code;
    plb_err_t err;
} plb_py_call_t;

/** Begin a call of the method `name` of `self`; NULL: of a function or constructor.  Fails while
 * another thread is in a method of `self` without the GIL.  If it fails, plb_py_end is not called.
 */
int plb_py_begin(plb_py_call_t *c, PyObject *self, const char *name);
PyObject *plb_py_end(plb_py_call_t *c, PyObject *answer);
void plb_py_release(plb_py_held_t *held);

/** Read the call's arguments into the targets, the pointers that follow.  The spec of a function,
 * method or type, "name:kind name:kind ...", names the arguments and says how each is read; help()
 * shows it as a signature.
 *
 *     i l u k d p   int32_t, int64_t, uint32_t, uint64_t, double, bool
 *     n             int64_t; None gives INT64_MAX
 *     d2 ... d9     a sequence of 2 ... 9 numbers, double[]
 *     s z           const char *; z: None gives NULL
 *     O T L         PyObject *, borrowed: any object, a tuple, a list
 *     f8 i8 i4 u1 b1  an array of float64, int64, int32, uint8, bool: const T **data, int64_t *n
 *     I             an array of int32 or int64: plb_ints_t *data, int64_t *n
 *
 * The array must have *n entries; a negative *n is set to the array's length.  A copy is made only
 * if dtype or layout requires one, and is held by the call.  Flags after the kind:
 *
 *     ?       None gives NULL
 *     +       one entry more than *n
 *     @       any shape; without it: one dimension
 *     !       the array is written in place
 *     =text   at the end: the argument is optional.  If it is absent, the target keeps its value;
 *             help() shows `text` as the default, so the caller must set the target to it before
 *
 * The arguments after `*` are keyword-only.  `...`: the next call reads the rest. */
int plb_py_parse(plb_py_call_t *c, ...);

/** Like plb_py_parse, but read the items of a tuple, or the attributes of an object. */
int plb_py_items(plb_py_call_t *c, PyObject *tuple, const char *spec, ...);
int plb_py_fields(plb_py_call_t *c, PyObject *object, const char *spec, ...);

/** View `object`, of any shape, with n entries (negative: any number); None gives NULL. */
int plb_py_view(plb_py_held_t *held, PyObject *object, const char *name, int type, int64_t n,
                const void *data);

/** View `object` as a C-contiguous array of NumPy type `type` and `ndim` dimensions (0: any). */
PyArrayObject *plb_py_hold(plb_py_held_t *held, PyObject *object, int type, int ndim);

/** Call the C core without the GIL; the value is its code, from which plb_py_fail makes an
 * exception.  PLB_PY_ASIDE is for a call that cannot fail and calls no function of Python. */
#define PLB_PY_UNLOCKED(c, call)                                                                  \
    (plb_py_unlock(c) ? ((c)->code = (call), plb_py_lock(c)) : (void)0, (c)->code)
#define PLB_PY_ASIDE(c, call) ((void)plb_py_unlock(c), (call), plb_py_lock(c))

/** Release the GIL, and let Ctrl-C end long loops in C; plb_py_lock takes the GIL again.  In a
 * method: false, with an exception and its code, if the object is in such a call already (of this
 * thread, which is in a function of the user that the core has called). */
bool plb_py_unlock(plb_py_call_t *c);
void plb_py_lock(plb_py_call_t *c);

/** Check for signals while the GIL is released: PLB_OK, or PLB_ERR_INTERRUPTED with an exception.
 * arg: the address of the thread's state. */
int plb_py_tick(void *arg);

/** Check for signals while this thread has the GIL: raise the exception of the signal's handler
 * (in the main thread), or KeyboardInterrupt if the list of plb_py_stop_when has an item. */
int plb_py_check_signals(void);
int plb_py_stop_when(PyObject *list);

/** Raise the Python exception of an error code (base/err.h), or of c->code; return NULL.  An
 * exception that is already pending, e.g. of a callback, is kept. */
PyObject *plb_py_raise(int code, const plb_err_t *err);
PyObject *plb_py_fail(plb_py_call_t *c);

/** Return 0 for PLB_OK; else raise the exception of the code, and return -1. */
int plb_py_check(plb_py_call_t *c, int code);

/** Raise MemoryError with a message; returns NULL. */
PyObject *plb_py_no_memory(void);

/** Raise the exception of a code, with a message. */
#define PLB_PY_RAISE(code, ...)                                                                   \
    do {                                                                                          \
        plb_err_t err_;                                                                           \
        plb_py_raise(PLB_FAIL(&err_, (code), __VA_ARGS__), &err_);                                \
    } while (0)

/* Do a step, and return from the function if it fails:
 *
 *     TRY, PASS            a call fails if it returns nonzero
 *     GET                  a pointer must not be NULL
 *     RUN                  a call of the core, made without the GIL; it is not made if an
 *                          exception is pending, e.g. because there is no output array
 *     RAISE_IF, REFUSE_IF  fails if `wrong` is true: sets an exception with a message
 *
 * PASS and REFUSE_IF are for functions that return a number, the others for functions that return
 * a pointer. */
#define PLB_PY_TRY(call)                                                                          \
    do {                                                                                          \
        if (call) {                                                                               \
            return NULL;                                                                          \
        }                                                                                         \
    } while (0)
#define PLB_PY_GET(pointer)                                                                       \
    do {                                                                                          \
        if ((pointer) == NULL) {                                                                  \
            return NULL;                                                                          \
        }                                                                                         \
    } while (0)
#define PLB_PY_RUN(c, call)                                                                       \
    do {                                                                                          \
        if (PyErr_Occurred() || PLB_PY_UNLOCKED(c, call)) {                                       \
            return plb_py_fail(c);                                                                \
        }                                                                                         \
    } while (0)
#define PLB_PY_RAISE_IF(wrong, ...)                                                               \
    do {                                                                                          \
        if (wrong) {                                                                              \
            return ((void)PyErr_Format(__VA_ARGS__), NULL);                                       \
        }                                                                                         \
    } while (0)
#define PLB_PY_PASS(call)                                                                         \
    do {                                                                                          \
        if (call) {                                                                               \
            return -1;                                                                            \
        }                                                                                         \
    } while (0)
#define PLB_PY_REFUSE_IF(wrong, ...)                                                              \
    do {                                                                                          \
        if (wrong) {                                                                              \
            return (PyErr_Format(__VA_ARGS__), -1);                                               \
        }                                                                                         \
    } while (0)

/** Return `value` if the code `ret` is PLB_OK; else raise the exception of the code and return
 * NULL.  `value` is only evaluated if it is returned, `ret` only if no exception is pending. */
#define PLB_PY_OR(c, ret, value)                                                                  \
    (PyErr_Occurred() == NULL && plb_py_check((c), (ret)) == 0 ? (value) : NULL)
#define PLB_PY_NONE(c, ret) PLB_PY_OR(c, ret, Py_NewRef(Py_None))

/* ---- outputs -------------------------------------------------------------------------------- */

/** Make a new array of n (rows times cols) entries, which the call holds, and return its memory;
 * NULL with an exception: PLB_PY_RUN and PLB_PY_OR then fail. */
void *plb_py_new(plb_py_call_t *c, int type, int64_t n);
void *plb_py_zeros(plb_py_call_t *c, int type, int64_t n);
void *plb_py_new2(plb_py_call_t *c, int type, int64_t rows, int64_t cols);

/** Return a new reference to the array whose memory is `data`, from plb_py_new; NULL gives None.
 *  plb_py_sealed: the array is then read-only. */
PyObject *plb_py_out(plb_py_call_t *c, const void *data);
PyObject *plb_py_sealed(plb_py_call_t *c, const void *data);

/** Copy data to a new array of n (rows times cols) entries; plb_py_copy: NULL gives None. */
PyObject *plb_py_copy(const void *data, int64_t n, int type);
PyObject *plb_py_copy2(const void *data, int64_t rows, int64_t cols, int type);

/** Return a read-only array that owns `data` (from plb_malloc; freed on failure); NULL: None. */
PyObject *plb_py_take(void *data, int64_t n, int type);

/** Return zeroed memory that lives as long as the call `c`. */
void *plb_py_memory(plb_py_call_t *c, int64_t n, size_t size);

/* ---- views of structs and lists ------------------------------------------------------------- */

/* X(name, type, count): the arrays of a snapshot, for n objects with d loads each, p ranks, m
 * edges, c multicasts with `pins` receivers in all, and b shared blocks. */
#define PLB_PY_SNAPSHOT(X)                                                                        \
    X(load, NPY_FLOAT64, n *d)                                                                    \
    X(rank, NPY_INT32, n)                                                                         \
    X(key, NPY_INT64, n)                                                                          \
    X(bytes, NPY_INT64, n)                                                                        \
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
    X(speed, NPY_FLOAT64, p)                                                                      \
    X(background, NPY_FLOAT64, p)                                                                 \
    X(memory_limit, NPY_INT64, p)                                                                 \
    X(node, NPY_INT32, p)

/** Whether start[n + 1] begins with 0, ends with `end` and never decreases. */
bool plb_py_rises(const int64_t *start, int64_t n, int64_t end);

/** View a contiguous array, without a copy.  plb_py_in_place: `object` must be writable and have n
 * entries of this type.  plb_py_records: it must have records of `size` bytes.  Borrowed. */
void *plb_py_in_place(PyObject *object, const char *name, int type, int64_t n);
PyArrayObject *plb_py_records(PyObject *object, size_t size, bool writable);

/** View communicators: start[i] says where the members of communicator i begin in `member`. */
int plb_py_comms(plb_py_held_t *held, PyObject *start, PyObject *member, plb_comms_t *out);

/** View a list of str (name, value, ...) as an array of texts; *n_options: number of pairs.  The
 * texts belong to the list, the array to the call.  NULL or None: nothing is set. */
int plb_py_options(plb_py_call_t *c, PyObject *list, const char *const **option, int *n_options);

/* ---- functions and types -------------------------------------------------------------------- */

/* Bound functions begin with one of these macros.  The last column has the variables that the body
 * gets; `c` is the call, `self` the object, `arg` the argument:
 *     PLB_PY_FN(name, spec, text)            a function of the module: c
 *     PLB_PY_FN1(name, arg, text)            with one argument, which is not converted: arg, c
 *     PLB_PY_FN0(name, text)                 without arguments: c
 *     PLB_PY_METHOD(type, name, spec, text)  a method of type##_t: self, c
 *     PLB_PY_METHOD1, PLB_PY_METHOD0         methods like FN1 and FN0: self first
 * The first line of help() is made from name and spec. */
#define PLB_PY_UNUSED __attribute__((unused))
#define PLB_PY_PLAIN(prefix, name, how, owner, parameters, arguments, text)                       \
    PyDoc_STRVAR(prefix##_##name##_doc, text);                                                    \
    enum { prefix##_##name##_how = (how) };                                                       \
    static PyObject *prefix##_##name##_in parameters;                                             \
    static PyObject *prefix##_##name(PyObject *object PLB_PY_UNUSED, PyObject *one PLB_PY_UNUSED) \
    {                                                                                             \
        plb_py_call_t call, *c = &call;                                                           \
        PLB_PY_TRY(plb_py_begin(c, owner, #name));                                                \
        return plb_py_end(c, prefix##_##name##_in arguments);                                     \
    }                                                                                             \
    static PyObject *prefix##_##name##_in parameters
#define PLB_PY_FULL(prefix, name, owner, parameters, arguments, what, text)                       \
    PyDoc_STRVAR(prefix##_##name##_doc, what "\0" text);                                          \
    enum { prefix##_##name##_how = METH_FASTCALL | METH_KEYWORDS };                               \
    static PyObject *prefix##_##name##_in parameters;                                             \
    static PyObject *prefix##_##name(PyObject *object PLB_PY_UNUSED, PyObject *const *args,       \
                                     Py_ssize_t n_args, PyObject *keywords)                       \
    {                                                                                             \
        plb_py_call_t call, *c = &call;                                                           \
        PLB_PY_TRY(plb_py_begin(c, owner, #name));                                                \
        c->spec = (what);                                                                         \
        c->source = (plb_py_source_t){.args = args, .n_args = n_args, .keywords = keywords};      \
        return plb_py_end(c, prefix##_##name##_in arguments);                                     \
    }                                                                                             \
    static PyObject *prefix##_##name##_in parameters

#define PLB_PY_FN(name, spec, text)                                                               \
    PLB_PY_FULL(fn, name, NULL, (plb_py_call_t * c), (c), spec, text)
#define PLB_PY_FN1(name, arg, text)                                                               \
    PLB_PY_PLAIN(fn, name, METH_O, NULL, (PyObject * arg, plb_py_call_t * c PLB_PY_UNUSED),       \
                 (one, c), #name "($module, " #arg ", /)\n--\n\n" text)
#define PLB_PY_FN0(name, text)                                                                    \
    PLB_PY_PLAIN(fn, name, METH_NOARGS, NULL, (plb_py_call_t * c PLB_PY_UNUSED), (c),             \
                 #name "($module, /)\n--\n\n" text)
#define PLB_PY_METHOD(type, name, spec, text)                                                     \
    PLB_PY_FULL(type, name, object, (type##_t * self, plb_py_call_t * c),                         \
                ((type##_t *)object, c), spec, text)
#define PLB_PY_METHOD1(type, name, arg, text)                                                     \
    PLB_PY_PLAIN(type, name, METH_O, object,                                                      \
                 (type##_t * self, PyObject * arg, plb_py_call_t * c PLB_PY_UNUSED),              \
                 ((type##_t *)object, one, c), #name "($self, " #arg ", /)\n--\n\n" text)
#define PLB_PY_METHOD0(type, name, text)                                                          \
    PLB_PY_PLAIN(type, name, METH_NOARGS, object,                                                 \
                 (type##_t * self, plb_py_call_t * c PLB_PY_UNUSED), ((type##_t *)object, c),     \
                 #name "($self, /)\n--\n\n" text)
#define PLB_PY_ENTRY(prefix, name)                                                                \
    {                                                                                             \
#name, (PyCFunction)(void (*)(void))prefix##_##name, prefix##_##name##_how,               \
            prefix##_##name##_doc                                                                 \
    }

/* clang-format off */
/* A table of at most 16 methods of this prefix: `fn`, or a type. */
#define PLB_PY_METHODS(prefix, ...) {PLB_PY_EACH(PLB_PY_ENTRY, prefix, __VA_ARGS__), {0}}

/* what(x, item), ... for each of the items, at most 16. */
#define PLB_PY_EACH(what, x, ...)                                                                 \
    PLB_PY_NTH(__VA_ARGS__, PLB_PY_E16, PLB_PY_E15, PLB_PY_E14, PLB_PY_E13, PLB_PY_E12,           \
               PLB_PY_E11, PLB_PY_E10, PLB_PY_E9, PLB_PY_E8, PLB_PY_E7, PLB_PY_E6, PLB_PY_E5,     \
               PLB_PY_E4, PLB_PY_E3, PLB_PY_E2, PLB_PY_E1)(what, x, __VA_ARGS__)
#define PLB_PY_NTH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, nth, ...) nth
#define PLB_PY_E1(what, x, i) what(x, i)
#define PLB_PY_E2(what, x, i, ...) what(x, i), PLB_PY_E1(what, x, __VA_ARGS__)
#define PLB_PY_E3(what, x, i, ...) what(x, i), PLB_PY_E2(what, x, __VA_ARGS__)
#define PLB_PY_E4(what, x, i, ...) what(x, i), PLB_PY_E3(what, x, __VA_ARGS__)
#define PLB_PY_E5(what, x, i, ...) what(x, i), PLB_PY_E4(what, x, __VA_ARGS__)
#define PLB_PY_E6(what, x, i, ...) what(x, i), PLB_PY_E5(what, x, __VA_ARGS__)
#define PLB_PY_E7(what, x, i, ...) what(x, i), PLB_PY_E6(what, x, __VA_ARGS__)
#define PLB_PY_E8(what, x, i, ...) what(x, i), PLB_PY_E7(what, x, __VA_ARGS__)
#define PLB_PY_E9(what, x, i, ...) what(x, i), PLB_PY_E8(what, x, __VA_ARGS__)
#define PLB_PY_E10(what, x, i, ...) what(x, i), PLB_PY_E9(what, x, __VA_ARGS__)
#define PLB_PY_E11(what, x, i, ...) what(x, i), PLB_PY_E10(what, x, __VA_ARGS__)
#define PLB_PY_E12(what, x, i, ...) what(x, i), PLB_PY_E11(what, x, __VA_ARGS__)
#define PLB_PY_E13(what, x, i, ...) what(x, i), PLB_PY_E12(what, x, __VA_ARGS__)
#define PLB_PY_E14(what, x, i, ...) what(x, i), PLB_PY_E13(what, x, __VA_ARGS__)
#define PLB_PY_E15(what, x, i, ...) what(x, i), PLB_PY_E14(what, x, __VA_ARGS__)
#define PLB_PY_E16(what, x, i, ...) what(x, i), PLB_PY_E15(what, x, __VA_ARGS__)
/* clang-format on */

/* Define type##_getset, from a table of X(type, name, value, doc); `value` uses `self`. */
#define PLB_PY_GETTER(type, name, value, text)                                                    \
    static PyObject *type##_get_##name(PyObject *object, void *unused PLB_PY_UNUSED)              \
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
 *   - type##_methods. */
#define PLB_PY_TYPE(type, full_name, what, text, ...)                                             \
    PyDoc_STRVAR(type##_doc, what "\0" text);                                                     \
    static PyObject *type##_new(PyTypeObject *of, PyObject *args, PyObject *kwargs)               \
    {                                                                                             \
        plb_py_call_t call, *c = &call;                                                           \
        PLB_PY_TRY(plb_py_begin(c, NULL, NULL));                                                  \
        c->spec = (what);                                                                         \
        c->source = (plb_py_source_t){.args = &PyTuple_GET_ITEM(args, 0),                         \
                                      .n_args = PyTuple_GET_SIZE(args),                           \
                                      .kwargs = kwargs};                                          \
        PyObject *object = of->tp_alloc(of, 0);                                                   \
        if (object != NULL && type##_init((type##_t *)object, c) != 0) {                          \
            Py_CLEAR(object);                                                                     \
        }                                                                                         \
        return plb_py_end(c, object);                                                             \
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
    static PyType_Slot type##_slots[] = {{Py_tp_doc, (void *)type##_doc},                         \
                                         {Py_tp_new, type##_new},                                 \
                                         {Py_tp_dealloc, type##_dealloc},                         \
                                         {Py_tp_methods, type##_methods},                         \
                                         __VA_ARGS__{0, NULL}};                                   \
    static PyType_Spec type##_spec = {full_name, sizeof(type##_t), 0,                             \
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,              \
                                      type##_slots};

/** Whether `object` is of the PLB_PY_TYPE `type` of the same file.  (It has no subclasses.) */
#define PLB_PY_IS(type, object) (Py_TYPE(object)->tp_dealloc == type##_dealloc)

/** Drop references, which may be NULL: PLB_PY_DROP(self->a, self->b).  PLB_PY_VISIT: visit
 * references, and the type of `object`, for the garbage collector. */
#define PLB_PY_DROP(...) plb_py_drop(PLB_PY_REFERENCES(__VA_ARGS__))
#define PLB_PY_VISIT(object, visit, arg, ...)                                                     \
    plb_py_visit((object), (visit), (arg), PLB_PY_REFERENCES(__VA_ARGS__))
#define PLB_PY_REFERENCES(...)                                                                    \
    (void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *)
void plb_py_drop(void *const *reference, size_t n);
int plb_py_visit(PyObject *object, visitproc visit, void *arg, void *const *reference, size_t n);

/* What a file of this folder adds to its module: methods, types, and what `more` adds. */
typedef struct plb_py_room {
    PyMethodDef *methods;
    PyType_Spec *types[3];
    int (*more)(PyObject *module);
} plb_py_room_t;

int plb_py_add(PyObject *module, const plb_py_room_t *room);

/** Add an attribute (stolen; NULL: an exception is pending) to a module. */
int plb_py_add_value(PyObject *module, const char *name, PyObject *value);
int plb_py_add_functions(PyObject *module, PyMethodDef *methods);

#ifdef Py_mod_multiple_interpreters
#define PLB_PY_ONE_INTERPRETER                                                                    \
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#else
#define PLB_PY_ONE_INTERPRETER
#endif

/* The definition of the module pylb._NAME; `exec` fills the module. */
#define PLB_PY_MODULE(name, text, exec)                                                           \
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, exec}, PLB_PY_ONE_INTERPRETER{0, NULL}};     \
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "pylb._" #name,             \
                                     .m_doc = (text), .m_slots = slots};                          \
    PyMODINIT_FUNC PyInit__##name(void);                                                          \
    PyMODINIT_FUNC PyInit__##name(void)                                                           \
    {                                                                                             \
        return PyModuleDef_Init(&definition);                                                     \
    }
