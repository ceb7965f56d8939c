/* Error codes with messages.
 *
 * A function that can fail returns `int`: PLB_OK, or a negative PLB_ERR_*.  (A function that
 * returns new memory returns NULL if there is none left.)  The function that finds the error
 * writes a message with the wrong values into the caller's plb_err_t.  PLB_ERR_INTERRUPTED has no
 * message.  PLB_TRACE=1 in the environment prints file and line of every failure. */
#pragma once

/* X(name, code, class of pylb.errors or built-in class of Python, what it means) */
#define PLB_ERRORS(X)                                                                             \
    X(NOMEM, -1, "MemoryError", "out of memory")                                                  \
    X(VALUE, -2, "DomainError", "a value is out of its domain")                                   \
    X(RANGE, -3, "OutOfRangeError", "an index is out of range")                                   \
    X(KEY, -4, "UnknownKeyError", "an unknown or duplicate key")                                  \
    X(INFEASIBLE, -5, "InfeasibleError", "no placement satisfies the constraints")                \
    X(FORMAT, -6, "FormatError", "a file is damaged or of another format")                        \
    X(MPI, -7, "MPIError", "MPI reported an error")                                               \
    X(INTERRUPTED, -8, "KeyboardInterrupt", "interrupted by a signal")                            \
    X(CALLBACK, -9, "StrategyError", "a callback failed; its own error is pending")               \
    X(STATE, -10, "StateError", "called in the wrong state")                                      \
    X(MISSING, -11, "MissingPartError", "an optional part is absent")                             \
    X(LIBRARY, -12, "PartitionerError", "a library reported an error")

typedef enum plb_code {
    PLB_OK = 0,
#define X(name, code, class, help) PLB_ERR_##name = (code),
    PLB_ERRORS(X)
#undef X
} plb_code_t;

typedef struct plb_err {
    int code;
    char text[512];
} plb_err_t;

/** Write a message into `err` (NULL: no message is kept) and return `code`. */
int plb_fail(plb_err_t *err, int code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#define PLB_FAIL(err, code, ...) plb_fail((err), (code), __FILE__, __LINE__, __VA_ARGS__)

/* Return `code`, and write a message, if the condition `wrong` is true. */
#define PLB_FAIL_IF(wrong, err, code, ...)                                                        \
    do {                                                                                          \
        if (wrong) {                                                                              \
            return PLB_FAIL(err, code, __VA_ARGS__);                                              \
        }                                                                                         \
    } while (0)

/* Call a function that returns a code; jump to `out` if it failed.  Needs `ret` and the label. */
#define PLB_TRY(call)                                                                             \
    do {                                                                                          \
        if ((ret = (call)) != PLB_OK) {                                                           \
            goto out;                                                                             \
        }                                                                                         \
    } while (0)

/* Call a function that returns a code; return the code if it failed. */
#define PLB_PASS(call)                                                                            \
    do {                                                                                          \
        const int code_ = (call);                                                                 \
        if (code_ != PLB_OK) {                                                                    \
            return code_;                                                                         \
        }                                                                                         \
    } while (0)

/* Call a function only if nothing has failed yet.  Needs `ret`. */
#define PLB_THEN(call) (ret = ret == PLB_OK ? (call) : ret)

/** Called every few milliseconds by a long loop or wait.  If it returns a code other than PLB_OK,
 * the loop or wait ends with this code. */
typedef int (*plb_tick_fn)(void *arg);
