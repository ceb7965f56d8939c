#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Counts down to the allocation that a test wants to fail; -1: none.  The only global of the
 * core, and nothing but tests writes it. */
static _Atomic int64_t fail_at = -1;

void plb_mem_fail_at(int64_t n)
{
    atomic_store(&fail_at, n);
}

static bool refused(size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / 2 / size) {
        return true;
    }
    if (atomic_load_explicit(&fail_at, memory_order_relaxed) < 0) {
        return false;
    }
    return atomic_fetch_sub(&fail_at, 1) == 0;
}

void *plb_malloc(size_t n, size_t size)
{
    return refused(n, size) ? NULL : malloc(n * size + (n * size == 0));
}

void *plb_calloc(size_t n, size_t size)
{
    return refused(n, size) ? NULL : calloc(n + (n == 0), size);
}

void *plb_realloc(void *old, size_t n, size_t size)
{
    return refused(n, size) ? NULL : realloc(old, n * size + (n * size == 0));
}

void plb_free(void *p)
{
    free(p);
}
