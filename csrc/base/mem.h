/* Memory: overflow-checked allocation that a test can make fail at the n-th call. */
#ifndef PLB_BASE_MEM_H
#define PLB_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/** `n * size` bytes, uninitialised; NULL when out of memory.  n = 0 gives a valid pointer. */
void *plb_malloc(size_t n, size_t size);
void *plb_calloc(size_t n, size_t size);
void *plb_realloc(void *old, size_t n, size_t size);
void plb_free(void *p); /* NULL is fine */

/** Tests only: let the n-th allocation from now (0 = the next) fail; -1 switches this off. */
void plb_mem_fail_at(int64_t n);

/* Allocate into `var`, or set the error and jump to `out`; needs `ret`, `err` and the label. */
#define PLB_NEW(var, n)                                                                           \
    do {                                                                                          \
        (var) = plb_malloc((size_t)(n), sizeof *(var));                                           \
        if ((var) == NULL) {                                                                      \
            ret = PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %zu bytes for %s",                 \
                           (size_t)(n) * sizeof *(var), #var);                                    \
            goto out;                                                                             \
        }                                                                                         \
    } while (0)

#define PLB_NEW0(var, n)                                                                          \
    do {                                                                                          \
        (var) = plb_calloc((size_t)(n), sizeof *(var));                                           \
        if ((var) == NULL) {                                                                      \
            ret = PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %zu bytes for %s",                 \
                           (size_t)(n) * sizeof *(var), #var);                                    \
            goto out;                                                                             \
        }                                                                                         \
    } while (0)

#endif
