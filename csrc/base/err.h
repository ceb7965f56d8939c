/* Error codes with messages.
 *
 * Every function that can fail returns `int`: PLB_OK, or a negative PLB_ERR_*.  The message is
 * written where the fault is, with its numbers, into the caller's plb_err_t; there are no
 * globals.  PLB_TRACE=1 in the environment prints file and line of every failure.
 */
#ifndef PLB_BASE_ERR_H
#define PLB_BASE_ERR_H

/* X(name, code, what it means).  The Python layer makes its exception classes from this table. */
#define PLB_ERRORS(X)                                                                             \
    X(NOMEM, -1, "out of memory")                                                                 \
    X(VALUE, -2, "a value is out of its domain")                                                  \
    X(RANGE, -3, "an index is out of range")                                                      \
    X(KEY, -4, "no such object, or twice the same")                                               \
    X(INFEASIBLE, -5, "no placement keeps to the constraints")                                    \
    X(FORMAT, -6, "a file is not what it claims to be")                                           \
    X(MPI, -7, "MPI reported an error")                                                           \
    X(INTERRUPTED, -8, "interrupted by a signal")                                                 \
    X(CALLBACK, -9, "a callback failed; its own error is pending")                                \
    X(STATE, -10, "called in the wrong state")                                                    \
    X(MISSING, -11, "an optional part is absent")                                                 \
    X(LIBRARY, -12, "a library reported an error")

typedef enum plb_code {
    PLB_OK = 0,
#define X(name, code, help) PLB_ERR_##name = (code),
    PLB_ERRORS(X)
#undef X
} plb_code_t;

typedef struct plb_err {
    int code;
    char text[512];
} plb_err_t;

/** Write a message into `err` (NULL: dropped) and return `code`. */
int plb_fail(plb_err_t *err, int code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#define PLB_FAIL(err, code, ...) plb_fail((err), (code), __FILE__, __LINE__, __VA_ARGS__)

/** Called every few thousand steps of a long local loop; nonzero ends the loop with that code. */
typedef int (*plb_tick_fn)(void *arg);

#endif
