/* Memory allocation that checks for overflow. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

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
