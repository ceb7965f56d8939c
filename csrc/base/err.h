/* Error codes with messages.
 *
 * A function that can fail returns `int`: PLB_OK, or a negative PLB_ERR_*.  (A function that
 * returns new memory returns NULL if there is none left.)  The function that finds the error
 * writes a message with the wrong values into the caller's plb_err_t.  PLB_ERR_INTERRUPTED has no
 * message.  PLB_TRACE=1 in the environment prints file and line of every failure. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Checks that numbers from the caller of pylb's C code are in their domains (ranges). */

typedef struct plb_range {
    double least, most; /* NaN is outside of every range */
    const char *expected;
} plb_range_t;

static const plb_range_t PLB_SECONDS = {0.0, 1e30, "seconds, 0 ... 1e30"};
static const plb_range_t PLB_AMOUNT = {0.0, 1e30, "a number, 0 ... 1e30"};
static const plb_range_t PLB_FINITE = {-1e30, 1e30, "a number, -1e30 ... 1e30"};
/* rounding may make max / mean a little less than 1 */
static const plb_range_t PLB_RATIO = {1.0 - 1e-9, 1e30, "max/mean, 1 ... 1e30"};
static const plb_range_t PLB_FRACTION = {0.0, 1.0, "0 ... 1"};

typedef struct plb_figure {
    const char *name;
    double value;
} plb_figure_t;

/** Write the error message for a number outside of its range; return PLB_ERR_VALUE. */
int plb_check_fail(const char *expected, const plb_figure_t *figure, plb_err_t *err);

/** Check n named numbers.  Inline: if range and n are constant, only the comparisons remain. */
static inline int plb_check(plb_range_t range, const plb_figure_t *figure, size_t n,
                            plb_err_t *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!(figure[i].value >= range.least && figure[i].value <= range.most)) {
            return plb_check_fail(range.expected, &figure[i], err);
        }
    }
    return PLB_OK;
}

/** Like plb_check, for one number; NaN is allowed: it stands for an unknown number. */
static inline int plb_check_known(plb_range_t range, const char *name, double value,
                                  plb_err_t *err)
{
    return isnan(value) ? PLB_OK : plb_check(range, &(plb_figure_t){name, value}, 1, err);
}

/** Check that coords[n, n_dims] are in -1e150 ... 1e150, so that sums of their squares are finite.
 * NULL: nothing is checked. */
int plb_check_coords(const double *coords, int64_t n, int32_t n_dims, plb_err_t *err);

/* The arguments `figure` and `n` of plb_check, from a list of numbers {name, value}, ... */
#define PLB_FIGURES(...)                                                                          \
    (plb_figure_t[]){__VA_ARGS__}, sizeof((plb_figure_t[]){__VA_ARGS__}) / sizeof(plb_figure_t)

/* A plb_figure_t from a member of the struct `from`: the name of the member, and its value. */
#define PLB_FIGURE(from, member)                                                                  \
    {                                                                                             \
#member, (double)(from)->member                                                           \
    }

/** Whether all x[n] are equal; true if x is NULL. */
static inline bool plb_all_equal(const double *x, int64_t n)
{
    for (int64_t i = 1; x != NULL && i < n; i++) {
        if (x[i] != x[0]) {
            return false;
        }
    }
    return true;
}
