/* What all rooms use: errors, memory, clocks, and algorithms on numbers. */
#pragma once

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Error codes with messages.
 *
 * A function that can fail returns `int`: PLB_OK, or a negative PLB_ERR_*.  (A function that
 * returns new memory returns NULL if there is none left.)  The function that finds the error
 * writes a message with the wrong values into the caller's plb_err_t.  PLB_ERR_INTERRUPTED has no
 * message.  PLB_TRACE=1 in the environment prints file and line of every failure. */

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

/* Memory allocation that checks for overflow. */

/** Like C's functions, for n * size bytes; n = 0 gives a valid pointer.  NULL: out of memory. */
void *plb_malloc(size_t n, size_t size);
void *plb_calloc(size_t n, size_t size);
void *plb_realloc(void *old, size_t n, size_t size);
void plb_free(void *p); /* p may be NULL */

void plb_free_all(void *const *p, size_t n);

/** Give freed memory back to the operating system, if the C library can. */
void plb_mem_trim(void);

#define PLB_FREE(...)                                                                             \
    plb_free_all((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))

/** Tests only: make the n-th allocation from now fail (0: the next one); -1: none fails. */
void plb_mem_fail_at(int64_t n);

/* Allocate n entries for the pointer `var`; NEW0: filled with zeros.  On failure, set `err`; then
 * a macro with PASS in its name returns the code; the other macros set `ret` and jump to `out`. */
#define PLB_NEW(var, n) PLB_NEW_BY(plb_malloc, var, n, PLB_JUMP)
#define PLB_NEW0(var, n) PLB_NEW_BY(plb_calloc, var, n, PLB_JUMP)
#define PLB_PASS_NEW(var, n) PLB_NEW_BY(plb_malloc, var, n, PLB_RETURN)
#define PLB_PASS_NEW0(var, n) PLB_NEW_BY(plb_calloc, var, n, PLB_RETURN)
#define PLB_NEW_BY(allocate, var, n, leave)                                                       \
    do {                                                                                          \
        (var) = allocate((size_t)(n), sizeof *(var));                                             \
        if ((var) == NULL) {                                                                      \
            leave(PLB_NO_MEMORY(var, n));                                                         \
        }                                                                                         \
    } while (0)
#define PLB_RETURN(code) return (code)
#define PLB_JUMP(code)                                                                            \
    ret = (code);                                                                                 \
    goto out
#define PLB_NO_MEMORY(var, n)                                                                     \
    PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %zu bytes for %s", (size_t)(n) * sizeof *(var),  \
             #var)

/* Resize `var` to n entries and keep the old ones. */
#define PLB_RENEW(var, n) PLB_RENEW_BY(var, n, PLB_JUMP)
#define PLB_PASS_RENEW(var, n) PLB_RENEW_BY(var, n, PLB_RETURN)
#define PLB_RENEW_BY(var, n, leave)                                                               \
    do {                                                                                          \
        void *grown_ = plb_realloc((var), (size_t)(n), sizeof *(var));                            \
        if (grown_ == NULL) {                                                                     \
            leave(PLB_NO_MEMORY(var, n));                                                         \
        }                                                                                         \
        (var) = grown_;                                                                           \
    } while (0)

/* Make sure that the array `var` has space for n entries; `room` is its capacity.  When the
 * array grows, its capacity at least doubles, so that adding entries one by one is cheap. */
#define PLB_GROW(var, room, n) PLB_GROW_BY(var, room, n, PLB_JUMP)
#define PLB_PASS_GROW(var, room, n) PLB_GROW_BY(var, room, n, PLB_RETURN)
#define PLB_GROW_BY(var, room, n, leave)                                                          \
    do {                                                                                          \
        if ((n) > (room)) {                                                                       \
            const int64_t room_ = 2 * (room) + 16 > (n) ? 2 * (room) + 16 : (n);                  \
            PLB_RENEW_BY(var, room_, leave);                                                      \
            (room) = room_;                                                                       \
        }                                                                                         \
    } while (0)

/* Allocate n entries for each of two to eight variables. */
#define PLB_NEW_EACH(n, ...) PLB_EACH_OF(PLB_NEW, n, __VA_ARGS__)
#define PLB_NEW0_EACH(n, ...) PLB_EACH_OF(PLB_NEW0, n, __VA_ARGS__)
#define PLB_PASS_NEW_EACH(n, ...) PLB_EACH_OF(PLB_PASS_NEW, n, __VA_ARGS__)
#define PLB_PASS_NEW0_EACH(n, ...) PLB_EACH_OF(PLB_PASS_NEW0, n, __VA_ARGS__)
#define PLB_PASS_RENEW_EACH(n, ...) PLB_EACH_OF(PLB_PASS_RENEW, n, __VA_ARGS__)
/* clang-format off */
#define PLB_EACH_OF(one, n, ...)                                                                  \
    PLB_EACH_NTH(__VA_ARGS__, PLB_EACH_8, PLB_EACH_7, PLB_EACH_6, PLB_EACH_5, PLB_EACH_4,         \
                 PLB_EACH_3, PLB_EACH_2, PLB_EACH_1)(one, n, __VA_ARGS__)
#define PLB_EACH_NTH(a, b, c, d, e, f, g, h, nth, ...) nth
#define PLB_EACH_1(one, n, a) one(a, n)
#define PLB_EACH_2(one, n, a, ...) one(a, n); PLB_EACH_1(one, n, __VA_ARGS__)
#define PLB_EACH_3(one, n, a, ...) one(a, n); PLB_EACH_2(one, n, __VA_ARGS__)
#define PLB_EACH_4(one, n, a, ...) one(a, n); PLB_EACH_3(one, n, __VA_ARGS__)
#define PLB_EACH_5(one, n, a, ...) one(a, n); PLB_EACH_4(one, n, __VA_ARGS__)
#define PLB_EACH_6(one, n, a, ...) one(a, n); PLB_EACH_5(one, n, __VA_ARGS__)
#define PLB_EACH_7(one, n, a, ...) one(a, n); PLB_EACH_6(one, n, __VA_ARGS__)
#define PLB_EACH_8(one, n, a, ...) one(a, n); PLB_EACH_7(one, n, __VA_ARGS__)
/* clang-format on */

/* Vector instructions of the processor. */

/* Compile a hot function twice: for all x86-64 processors, and for those with AVX2 and BMI
 * (x86-64-v3).  The loader chooses the version for this processor.  Neither version uses fused
 * multiply-adds, so both give the same bits.  With the address and thread sanitizers (which start
 * only after the loader has chosen) and with compilers other than gcc 12 or later, the function is
 * compiled once. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12 &&     \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PLB_MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define PLB_MULTIVERSION
#endif

/* An array of 32-bit or of 64-bit integers, which is read without a copy; whole numbers. */

typedef struct plb_ints {
    const void *data; /* the array; NULL: there is none */
    int wide;         /* nonzero: 64-bit integers; zero: 32-bit */
} plb_ints_t;

static inline int64_t plb_int_at(plb_ints_t x, int64_t i)
{
    return x.wide ? ((const int64_t *)x.data)[i] : ((const int32_t *)x.data)[i];
}

/** Round a number of messages or bytes, zero or more.  Above 9e18, the result is 9e18. */
static inline int64_t plb_whole(double x)
{
    return llrint(fmin(x, 9e18));
}

/* Bisection: set the variable `low` to the first index in [low, high) for which the expression
 * `holds` is true, or to `high` if there is none.  If `holds` is true for an index, it must be
 * true for all later indices.  `middle` is the name of the index in this expression. */
#define PLB_BISECT(low, high, middle, holds)                                                      \
    for (int64_t end_ = (high); (low) < end_;) {                                                  \
        const int64_t middle = (low) + (end_ - (low)) / 2;                                        \
        if (holds) {                                                                              \
            end_ = middle;                                                                        \
        } else {                                                                                  \
            (low) = middle + 1;                                                                   \
        }                                                                                         \
    }

/** Return the smallest i with x[i] >= value, where x[n] is ascending; n if there is none. */
static inline int64_t plb_lower_bound(const int64_t *x, int64_t n, int64_t value)
{
    int64_t low = 0;
    PLB_BISECT(low, n, i, x[i] >= value)
    return low;
}

/* ---- tuned numbers --------------------------------------------------------------------------
 *
 * A number that trades one thing for another is a named constant, and its comment has the word
 * "tuned", its unit, and the measurement that set it.  These are used in several rooms; others
 * stand where they are used, or follow from these. */

/* No difference: sums of 10^6 loads are rounded by less than this fraction.  Not tuned. */
#define PLB_ROUNDING 1e-9

/* The noise of times that repeat, on quiet cores.
 * tuned: fraction of a time; with 0.005 and 0.02: the same in benchmarks/cycles.py and like.py;
 * triggers.py, cost unknown: mean regret of auto 3.42 and 3.03 %, not 3.38 %, but what is below
 * 8 % is then no longer removed */
#define PLB_NOISE 0.01

/* Less is not worth an action or a word: loads are predictions with an error of per cents.
 * tuned: fraction of a time; triggers.py, 6 programs of each family: 0.05 instead of 0.03 as the
 * part of a run that the first trial may cost: mean regret with unknown cost 3.25 %, not 3.09 % */
#define PLB_NOTABLE 0.05

/* Weight of the newest of all observations in a running mean.
 * tuned: fraction; cycles.py: with 0.1, 1.055 of the perfect time; with 0.2 and 0.4, 1.052 and
 * 1.051; triggers.py: mean regrets differ by at most 0.02 points */
#define PLB_NEWEST 0.2

/* A larger change is not noise: four standard deviations.
 * tuned: mean absolute deviations; metabalancer with 4: mean regret 3.31 %, with 5 3.32 % */
#define PLB_SPREADS 5.0

/* A larger change is neither noise nor drift.
 * tuned: factor; like.py, 50 programs: with 1.5, speeds are off by 3.5 %, not 3.2 % (mean), with 4
 * 3.2 %; triggers.py: mean regrets differ by at most 0.04 points */
#define PLB_ABRUPT 2.0

enum {
    /* Of so many iterations one may be disturbed (plb_median3), and so many after an LB step may
     * be slow.
     * tuned: iterations; triggers.py: with 5, mean regret of auto 1.63 %, not 1.27 %; like.py:
     * with 6, speeds are known after 3.7 placements, not 3.0 */
    PLB_FEW = 3,
    /* A mean or a trend is taken over so many.
     * tuned: iterations; metabalancer with 10: mean regret 3.31 %, with 8 3.32 % */
    PLB_WINDOW = 8,
    /* What comes later, or was earlier, counts no more.
     * tuned: iterations; triggers.py, second run: mean regret 1.04 % with 100 and with 128 */
    PLB_LONG = 128,
};

/* A bucket is prefetched so long before it is needed: with 10^6 keys, each look-up waits for
 * memory. tuned: keys; changes only times */
enum { PLB_AHEAD = 16 };

/* The smaller or larger of two numbers (no NaN); only one instruction, unlike fmin and fmax. */

static inline double plb_lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double plb_greater(double a, double b)
{
    return a > b ? a : b;
}

/* A number with an id, e.g. a load and its object: the entries of heaps and sorts. */

typedef struct plb_item {
    double key;
    int32_t id;
} plb_item_t;

/** Whether a comes before b: by key, then by id. */
static inline bool plb_item_before(plb_item_t a, plb_item_t b)
{
    return a.key < b.key || (a.key == b.key && a.id < b.id);
}

/* Parameters: numbers that a user may set, with default, range and help text in a table. */

typedef struct plb_param {
    const char *name, *unit, *help;
    double fallback, least, most; /* the default; the range least ... most, both included */
} plb_param_t;

/* One plb_param_t from a row X(name, unit, default, least, most, help) of an X-macro. */
#define PLB_PARAM_ROW(name, unit, fallback, least, most, help)                                    \
    {#name, unit, help, fallback, least, most},

/** Check value[n], the values of params[n]; PLB_ERR_VALUE if one is out of its range. */
int plb_params_check(const plb_param_t *params, int n, const double *value, plb_err_t *err);

/* The clocks that measure an object's load.  A thread that runs a virtual rank has its own time
 * from plb_clock_enter to plb_clock_leave (a frame).  This own time runs at the speed of the
 * virtual rank, and plb_clock_declare adds time to it. */

/* The time for which the kernel let this thread wait for a core (the run delay), and a clock that
 * stops during these waits.
 *
 * Linux counts the run delay of each thread (the second number in schedstat, proc(5)).  A thread
 * that sleeps, or waits for input or output, needs no core: this time is not counted.
 *
 * Reading the run delay takes about 1 us.  So the clock reads it only once in
 * PLB_RUN_DELAY_GRAIN_NS, which costs 0.5 % of the time.  A wait longer than this interval is
 * always subtracted from the time of the object that it delayed; a shorter wait may be subtracted
 * from the time of a later object. */

enum {
    /* Falling asleep and waking up take up to this long on an idle core.
     * tuned: ns; benchmarks/mpi_clock.py: loads are off by at most 1 % on calm cores */
    PLB_WAKE_NS = 200000,
    PLB_RUN_DELAY_GRAIN_NS = PLB_WAKE_NS,
};

/** The run delay of this thread so far, in nanoseconds; 0 if the kernel does not count it. */
int64_t plb_run_delay_ns(void);

/* Both clocks at one time, in nanoseconds. */
typedef struct plb_moment {
    int64_t wall, undelayed;
} plb_moment_t;

/** Return both clocks.  wall: plb_monotonic_ns(); reads: read the run delay now, even if the last
 * reading is less than PLB_RUN_DELAY_GRAIN_NS old. */
plb_moment_t plb_moment_now(int64_t wall, bool reads);

/** The time of a POSIX clock, in nanoseconds. */
static inline int64_t plb_posix_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/** Elapsed time since any fixed time, in nanoseconds; never decreases. */
static inline int64_t plb_monotonic_ns(void)
{
    return plb_posix_ns(CLOCK_MONOTONIC);
}

/** The monotonic clock without the run delay of this thread; never decreases. */
static inline int64_t plb_undelayed_ns(void)
{
    return plb_moment_now(plb_monotonic_ns(), false).undelayed;
}

/** The time for which this thread has worked: without its calls of MPI, and without waiting for a
 * core (delayed: with it).  Defined by libpylb_pmpi and by the recorder (whatif/recorder), if the
 * program has loaded one of them.  *sees: whether any call of MPI was seen in this process. */
extern int64_t pylb_pmpi_work_ns(bool delayed, bool *sees) __attribute__((weak));

typedef enum plb_mpi_clock { PLB_NO_PMPI, PLB_PMPI_BLIND, PLB_PMPI_SEES } plb_mpi_clock_t;

/** Whether the library that sees calls of MPI is loaded, and has seen one in this process. */
plb_mpi_clock_t plb_mpi_clock(void);

typedef enum plb_clock {
    PLB_CLOCK_WALL = CLOCK_MONOTONIC,        /* elapsed time, including all waits */
    PLB_CLOCK_CPU = CLOCK_THREAD_CPUTIME_ID, /* processor time of this thread only */
    PLB_CLOCK_NONE = -1,                     /* no clock: only plb_clock_declare adds time */
    PLB_CLOCK_AUTO = -2,     /* elapsed time, without the time that the thread waited for a core */
    PLB_CLOCK_MPI = -3,      /* like PLB_CLOCK_AUTO, also without the thread's calls of MPI */
    PLB_CLOCK_MPI_WALL = -4, /* elapsed time without the thread's calls of MPI */
} plb_clock_t;

typedef struct plb_clock_frame {
    bool on;
    plb_clock_t source; /* the clock that drives the thread's own time */
    double pace;        /* seconds of own time per second of `source` */
    int64_t began;      /* ns: time of `source` when the frame began */
    int64_t own;        /* ns: own time when the frame began, plus declared time since then */
    int64_t declared;   /* ns: declared time in all frames of this thread */
} plb_clock_frame_t;

/** Find the clock named "auto", "wall", "cpu", "mpi", "mpi_wall" or "none"; false: no such clock.
 */
bool plb_clock_named(const char *name, plb_clock_t *out);
const char *plb_clock_name(plb_clock_t clock);

extern _Thread_local plb_clock_frame_t plb_clock_frame;

static inline int64_t plb_clock_real_ns(plb_clock_t clock)
{
    if (clock == PLB_CLOCK_AUTO) {
        return plb_undelayed_ns();
    }
    if (clock <= PLB_CLOCK_MPI) {
        bool sees;
        return pylb_pmpi_work_ns == NULL ? plb_monotonic_ns()
                                         : pylb_pmpi_work_ns(clock == PLB_CLOCK_MPI_WALL, &sees);
    }
    return clock == PLB_CLOCK_NONE ? 0 : plb_posix_ns((clockid_t)clock);
}

/** In a frame: return this thread's own time in nanoseconds.  If `clock` is PLB_CLOCK_CPU and the
 * source is the wall clock: processor time of the thread times the pace, plus declared time. */
int64_t plb_clock_own_ns(plb_clock_t clock);

static inline int64_t plb_clock_ns(plb_clock_t clock)
{
    return plb_clock_frame.on ? plb_clock_own_ns(clock) : plb_clock_real_ns(clock);
}

/** Begin a frame: this thread now has its own time, which starts at `own` nanoseconds. */
void plb_clock_enter(plb_clock_t source, int64_t own, double pace);

/** End the frame, and return the thread's own time. */
int64_t plb_clock_leave(void);

/** In a frame: add `ns` nanoseconds to the thread's own time. */
static inline void plb_clock_declare(int64_t ns)
{
    plb_clock_frame.own += ns;
    plb_clock_frame.declared += ns;
}

/* Waiting that leaves the core to other ranks.  If ranks share a core or a quota, a rank that
 * spins takes time from the rank that it waits for. */

enum {
    /* A rank spins until this time since the start of its wait.
     * tuned: ns; twice the time of a small Iallreduce on two cores */
    PLB_WAIT_SPIN_NS = 30000,
    PLB_WAIT_YIELD_NS = PLB_WAKE_NS / 2, /* then yield the core, until this time since the start */
    PLB_WAIT_MOST_NS = PLB_WAKE_NS, /* longest sleep: the end of a wait may be noticed this late */
    /* Time between two checks for signals, which can wait for Python's GIL.
     * tuned: ns; a person sees no delay; changes only times */
    PLB_TICK_NS = 20000000,
};

typedef struct plb_wait {
    int64_t start, ticked; /* ns: begin of the wait; most recent check for signals */
    plb_tick_fn tick;      /* checks for signals; NULL: none */
    void *arg;
} plb_wait_t;

/* What a rank reports when it has waited for other ranks for longer; the default of
 * PYLB_ABORT_AFTER. */
static const int64_t PLB_WAIT_PATIENCE_NS = 10000000000;
typedef struct plb_patience {
    void (*say)(void *arg); /* NULL: nothing is reported */
    void *arg;
} plb_patience_t;

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg);

/** Wait a little between two tests of a condition.  Returns PLB_OK, or the code of `tick`. */
int plb_wait_pause(plb_wait_t *self);

/* Lets a signal end a long loop.
 *
 * A long loop regularly calls plb_interrupted(n), where n is the number of steps since the last
 * call.  Every PLB_TICK_NS nanoseconds, plb_interrupted calls the thread's function that checks
 * for signals (plb_interrupt_set).  After PLB_ERR_INTERRUPTED, all later calls return this code.
 * So a function without a return code can return early; then its caller calls plb_interrupted(0).
 */

typedef struct plb_interrupt {
    plb_tick_fn check; /* checks for signals; NULL: nothing interrupts this thread */
    void *arg;
    int64_t left;  /* steps until the clock is read again */
    int64_t since; /* ns: time of the most recent call of `check` */
    int code;      /* the code that `check` returned most recently */
} plb_interrupt_t;

/** Set the function that checks for signals on this thread; return the previous setting. */
plb_interrupt_t plb_interrupt_set(plb_interrupt_t now);

/* With this number of steps, plb_interrupted always reads the clock. */
#define PLB_INTERRUPT_NOW (INT64_C(1) << 40)

/** Count `steps` of about 10 ns each; check for signals if the last check was PLB_TICK_NS ago. */
int plb_interrupted(int64_t steps);

/* Which cores a rank may use, and which ranks share them.
 *
 * Ranks that share a core wait for one another.  The clock "auto" leaves these waits out, because
 * they do not depend on the object that runs.  A quota (of a Linux control group) that limits only
 * one rank is different: it slows every object of this rank, like a slow processor.  The kernel
 * counts this delay as a wait for a core, too.  So on such a rank, loads are elapsed times. */

/* Largest number of cores of a host; if a host has more, the cores of its ranks are unknown. */
enum { PLB_CORES_MOST = 1024 };

/* What a rank knows of its cores; sent between ranks as bytes. */
typedef struct plb_cores {
    uint64_t host;                      /* a hash that identifies the rank's kernel */
    uint64_t mask[PLB_CORES_MOST / 64]; /* bit c: the rank may use core c */
    uint64_t group; /* the control group whose quota limits the rank most; 0: none */
    double quota;   /* number of cores that all processes of the group together may use */
} plb_cores_t;

/* The group of ranks with the fewest cores per rank. */
typedef struct plb_crowd {
    int32_t n_ranks;
    double n_cores;
    char words[48]; /* e.g. "4 ranks share 2 cores"; empty: no rank has to wait, or unknown */
} plb_crowd_t;

/** Find out which cores the calling process may use. */
void plb_cores_here(plb_cores_t *out);

/** Whether a quota limits `rank` to less than its cores, and limits no other rank of all[p]. */
bool plb_cores_capped(const plb_cores_t *all, int32_t p, int32_t rank);

/** Divide the ranks into groups that share cores: ranks of one host whose sets of cores overlap,
 * or that are under the same quota.  group[p]: the lowest rank of each rank's group; cores[p]: the
 * number of cores of this group; if it is unknown, one for each rank.  A rank with a quota of its
 * own cannot use more than this quota.  So cores count as more for such ranks: e.g. two cores
 * count as four for four ranks with quotas of half a core each, none of which has to wait. */
int plb_cores_groups(const plb_cores_t *all, int32_t p, int32_t *group, double *cores,
                     plb_err_t *err);

/** Find the group with the fewest cores per rank. */
int plb_cores_crowd(const plb_cores_t *all, int32_t p, plb_crowd_t *out, plb_err_t *err);

/* Items sorted by group. */

/* n items in groups: group g has the items item[start[g] ... start[g + 1] - 1], ascending. */
typedef struct plb_groups {
    int64_t *start; /* [n_groups + 1] where the items of each group begin */
    int32_t *item;  /* [n] items, group by group */
} plb_groups_t;

/** Put item i into group[i], 0 ... n_groups - 1.  `self` owns its arrays; free it also after a
 * failure. */
int plb_groups_init(plb_groups_t *self, const int32_t *group, int64_t n, int32_t n_groups,
                    plb_err_t *err);
void plb_groups_free(plb_groups_t *self);

/* Exact sums of seconds in fixed point: any order of additions on any number of ranks gives the
 * same bits.
 *
 * A sum is an unsigned number of 320 bits whose lowest bit is 2^-192; the part of a value below
 * this bit (less than 2e-58) is cut off.  The sum must be below 2^128 (3.4e38).  It is rounded
 * only once, in plb_exact_value. */

#define PLB_EXACT_LIMBS 5
#define PLB_EXACT_MOST 1e30 /* largest value that may be added */

typedef struct plb_exact {
    uint64_t limb[PLB_EXACT_LIMBS]; /* the least significant limb comes first */
} plb_exact_t;

/** Add x, 0 <= x <= PLB_EXACT_MOST (the caller has checked). */
void plb_exact_add(plb_exact_t *self, double x);

void plb_exact_merge(plb_exact_t *self, const plb_exact_t *other);

/** Round the sum to the nearest double, ties to even. */
double plb_exact_value(const plb_exact_t *self);

/* Hashing of 64-bit keys, and a hash table. */

/** Mix x, so that each of its bits affects all bits of the result (Stafford's mix 13, the
 * finalizer of SplitMix64). */
static inline uint64_t plb_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** The hash of a key; the hash of key 0 is not 0. */
static inline uint64_t plb_hash(int64_t key)
{
    return plb_mix64((uint64_t)key + UINT64_C(0x9e3779b97f4a7c15));
}

/* All hash tables use open addressing with linear probing: the first of n slots to examine for a
 * hash, and the slot to examine after slot i.  The search ends at an empty slot. */
static inline int64_t plb_slot_first(uint64_t hash, int64_t n)
{
    return (int64_t)(((hash & UINT32_MAX) * (uint64_t)n) >> 32);
}
static inline int64_t plb_slot_next(int64_t i, int64_t n)
{
    return i + 1 < n ? i + 1 : 0;
}

/* A hash table of numbers, at most two thirds full.  What the numbers stand for is up to the user:
 * keys (plb_keys_t), or items of any kind. */
typedef struct plb_index {
    int32_t *bucket; /* [n_buckets] a number, or -1: empty */
    int64_t n_buckets;
} plb_index_t;

/** Set up an empty table for `room` numbers, in place of the present one. */
int plb_index_reset(plb_index_t *self, int64_t room, plb_err_t *err);

/** Add a number of this hash that is not in the table. */
static inline void plb_index_put(plb_index_t *self, uint64_t hash, int32_t number)
{
    int64_t b = plb_slot_first(hash, self->n_buckets);
    while (self->bucket[b] >= 0) {
        b = plb_slot_next(b, self->n_buckets);
    }
    self->bucket[b] = number;
}

/* Different keys, numbered from 0. */
typedef struct plb_keys {
    int64_t *key;    /* [n] key[k]: the key with number k */
    int64_t n, room; /* number of keys; capacity of `key` */
    plb_index_t index;
    bool borrowed; /* true: `key` is the caller's array; false: owned */
} plb_keys_t;

/** Make an empty table with capacity for `room` keys.  {0} is a valid empty table, too. */
int plb_keys_init(plb_keys_t *self, int64_t room, plb_err_t *err);

/** Number the keys of an array, which must all differ: key[i] gets the number i.  The array is not
 * copied: it must live as long as `self`, and no keys may be added to `self`. */
int plb_keys_over(plb_keys_t *self, const int64_t *key, int64_t n, plb_err_t *err);
void plb_keys_free(plb_keys_t *self);

/** The bucket that a key has in the table, or would have.  The table must have buckets. */
static inline int32_t *plb_keys_bucket(const plb_keys_t *self, int64_t key)
{
    int64_t b = plb_slot_first(plb_hash(key), self->index.n_buckets);
    int32_t *const bucket = self->index.bucket;
    while (bucket[b] >= 0 && self->key[bucket[b]] != key) {
        b = plb_slot_next(b, self->index.n_buckets);
    }
    return &bucket[b];
}

/** The number of a key; -1: the key is not in the table. */
static inline int32_t plb_keys_find(const plb_keys_t *self, int64_t key)
{
    return self->n == 0 ? -1 : *plb_keys_bucket(self, key);
}

/** Add a key if it is new; *number: its number.  PLB_ERR_RANGE: more than 2^30 keys. */
int plb_keys_add(plb_keys_t *self, int64_t key, int32_t *number, plb_err_t *err);

/* Heaps of items with the smallest on top.  The id decides ties (plb_item_before), so the order of
 * pops depends only on the items.  For a max-heap, negate the keys.  Each node has four children,
 * which fill a cache line of 64 bytes (LaMarca and Ladner 1996); so a heap has half the depth of a
 * binary heap.  The caller owns the array of items, which must be large enough for all items that
 * will be pushed.
 *
 * In a plb_heap_t, only the top item can be changed or removed, and ids may repeat.  In a
 * plb_queue_t, any item can: it is found by its id. */

enum { PLB_HEAP_ARITY = 4 };

typedef struct plb_heap {
    plb_item_t *item; /* the top is item[0] */
    int32_t n;
} plb_heap_t;

typedef struct plb_queue {
    plb_item_t *item; /* [n] the top is item[0] */
    int32_t *at;      /* [largest id + 1] index of each id's item; -1: it is not in the queue */
    int32_t n;
} plb_queue_t;

/* The functions below with a name that ends in _ serve heaps, without `at`, and queues. */
static inline void plb_heap_set_(plb_item_t *item, int32_t *at, int64_t i, plb_item_t moving)
{
    item[i] = moving;
    if (at != NULL) {
        at[moving.id] = (int32_t)i;
    }
}

/* Replace item i by `moving`, and let it sink to its place. */
static inline void plb_heap_sink_(plb_item_t *item, int32_t *at, int32_t n, int64_t i,
                                  plb_item_t moving)
{
    for (;;) {
        const int64_t first = PLB_HEAP_ARITY * i + 1;
        if (first >= n) {
            break;
        }
        const int64_t end = first + PLB_HEAP_ARITY < n ? first + PLB_HEAP_ARITY : n;
        int64_t least = first;
        for (int64_t k = first + 1; k < end; k++) {
            least = plb_item_before(item[k], item[least]) ? k : least;
        }
        if (!plb_item_before(item[least], moving)) {
            break;
        }
        plb_heap_set_(item, at, i, item[least]);
        i = least;
    }
    plb_heap_set_(item, at, i, moving);
}

/* Replace item i by `moving`, and let it rise to its place. */
static inline void plb_heap_rise_(plb_item_t *item, int32_t *at, int32_t i, plb_item_t moving)
{
    while (i > 0) {
        const int32_t parent = (i - 1) / PLB_HEAP_ARITY;
        if (!plb_item_before(moving, item[parent])) {
            break;
        }
        plb_heap_set_(item, at, i, item[parent]);
        i = parent;
    }
    plb_heap_set_(item, at, i, moving);
}

/* ---- heaps ---------------------------------------------------------------------------------- */

/** Make a heap of item[n], which the caller has written. */
static inline void plb_heap_build(plb_heap_t *self)
{
    for (int32_t i = (self->n + PLB_HEAP_ARITY - 2) / PLB_HEAP_ARITY; i-- > 0;) {
        plb_heap_sink_(self->item, NULL, self->n, i, self->item[i]);
    }
}

static inline void plb_heap_push(plb_heap_t *self, plb_item_t moving)
{
    plb_heap_rise_(self->item, NULL, self->n++, moving);
}

/** Change the key of the top item, which must exist, and let the item sink to its place. */
static inline void plb_heap_rekey(plb_heap_t *self, double key)
{
    plb_heap_sink_(self->item, NULL, self->n, 0, (plb_item_t){key, self->item[0].id});
}

/** Remove and return the top item, which must exist. */
static inline plb_item_t plb_heap_pop(plb_heap_t *self)
{
    const plb_item_t top = self->item[0];
    if (--self->n > 0) {
        plb_heap_sink_(self->item, NULL, self->n, 0, self->item[self->n]);
    }
    return top;
}

/* ---- queues --------------------------------------------------------------------------------- */

/** Replace item i by another one, which may be smaller or larger. */
static inline void plb_queue_replace_(plb_queue_t *self, int32_t i, plb_item_t moving)
{
    if (plb_item_before(moving, self->item[i])) {
        plb_heap_rise_(self->item, self->at, i, moving);
    } else {
        plb_heap_sink_(self->item, self->at, self->n, i, moving);
    }
}

/** Change the key of an id; an id that is not in the queue is added. */
static inline void plb_queue_set(plb_queue_t *self, int32_t id, double key)
{
    const int32_t i = self->at[id];
    const plb_item_t item = {key, id};
    if (i < 0) {
        plb_heap_rise_(self->item, self->at, self->n++, item);
    } else {
        plb_queue_replace_(self, i, item);
    }
}

/** Remove an id, which must be in the queue. */
static inline void plb_queue_drop(plb_queue_t *self, int32_t id)
{
    const int32_t i = self->at[id];
    self->at[id] = -1;
    if (i < --self->n) {
        plb_queue_replace_(self, i, self->item[self->n]);
    }
}

/** Remove all ids. */
static inline void plb_queue_clear(plb_queue_t *self)
{
    while (self->n > 0) {
        self->at[self->item[--self->n].id] = -1;
    }
}

/* Numbers as text, with a decimal point.  A program's locale can replace the point by a comma. */

/** From now on, this thread reads and writes numbers with a point; pass the result to
 * plb_point_end. */
static inline locale_t plb_point_begin(void)
{
    const locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return c == (locale_t)0 ? c : uselocale(c);
}

/** Give this thread its locale back. */
static inline void plb_point_end(locale_t before)
{
    if (before != (locale_t)0) {
        freelocale(uselocale(before));
    }
}

/** Like strtod, with a point in every locale.  Without memory for a locale: NAN, as for a text
 * that is no number. */
static inline double plb_point_read(const char *text, char **end)
{
    double out = NAN;
    char *stop = (char *)(uintptr_t)text;
    const locale_t before = plb_point_begin();
    if (before != (locale_t)0) {
        out = strtod(text, &stop);
        plb_point_end(before);
    }
    if (end != NULL) {
        *end = stop;
    }
    return out;
}

/* Medians and quantiles, in a time that is linear on average (quadratic at worst). */

/** The k-th smallest of x[n]; k = 0: the smallest.  Reorders x: x[k] is then this value, no entry
 * before it is greater, and no entry after it is smaller. */
double plb_nth(double *x, int64_t n, int64_t k);

/** The median of x[n], n > 0; for even n the mean of the two middle values.  Reorders x. */
double plb_median(double *x, int64_t n);

static inline double plb_median3(const double *x)
{
    return fmax(fmin(x[0], x[1]), fmin(fmax(x[0], x[1]), x[2]));
}

/* Seeded random numbers: xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64.  The
 * record of an LB step (pylb/decide/receipts.py) has the seed, so the step can be repeated. */

typedef struct plb_rng {
    uint64_t s[4];
} plb_rng_t;

void plb_rng_init(plb_rng_t *self, uint64_t seed);
uint64_t plb_rng_next(plb_rng_t *self);

/** Uniform in [0, 1), 53 bits. */
double plb_rng_uniform(plb_rng_t *self);

/** Uniform in 0 ... n-1, without bias (Lemire 2019); n > 0. */
uint64_t plb_rng_below(plb_rng_t *self, uint64_t n);

/* Sorts (number, id) pairs by the number; equal numbers by id, lowest first.  The pairs are
 * distributed over bins: the time is usually linear, and proportional to n log n at worst. */

typedef enum plb_direction { PLB_ASCENDING, PLB_DESCENDING } plb_direction_t;

/* Loads that are sorted part by part.  Each part is sorted just before it is used, so that its
 * items are still in the cache. */
typedef struct plb_loads {
    plb_item_t *item; /* [n] (x, index), or (-x, index) for the descending order */
    int64_t n, ready; /* item[0 ... ready-1] are sorted */
    struct plb_sort_parts *parts;
} plb_loads_t;

/** Prepare to sort x[n], which must be finite; n < 2^31.  `self` owns its arrays; x is copied. */
int plb_loads_init(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                   plb_err_t *err);

/** Like plb_loads_init, but also sort all loads. */
int plb_loads_sorted(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                     plb_err_t *err);

/** Make sure that at least the first `upto` <= n items are sorted. */
void plb_loads_sort(plb_loads_t *self, int64_t upto);
void plb_loads_free(plb_loads_t *self);

/** Number of entries of scratch memory that plb_sort_items needs for the bins of n items. */
#define PLB_SORT_BINS(n) (2 * (int64_t)(n))

/** Sort item[n], whose keys lie in [low, high] and whose ids all differ.  spare[n] and
 * bin[PLB_SORT_BINS(n)] are scratch memory. */
void plb_sort_items(plb_item_t *item, int64_t n, double low, double high, plb_item_t *spare,
                    uint32_t *bin);
