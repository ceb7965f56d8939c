#include "base/base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { HUGE_PAGE = 1 << 21, HUGE_BLOCK = 2 * HUGE_PAGE }; /* bytes; the block holds a whole page */

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

/* Ask for huge pages, which cause fewer page faults and fewer TLB misses.  This is only advice, so
 * its failure is ignored. */
static void *advised(void *p, size_t bytes)
{
    if (p != NULL && bytes >= HUGE_BLOCK) {
        const uintptr_t page = 4096, begin = ((uintptr_t)p + page - 1) / page * page;
        (void)madvise((void *)begin, (uintptr_t)p + bytes - begin, MADV_HUGEPAGE);
    }
    return p;
}

void *plb_malloc(size_t n, size_t size)
{
    return refused(n, size) ? NULL : advised(malloc(n * size + (n * size == 0)), n * size);
}

void *plb_calloc(size_t n, size_t size)
{
    return refused(n, size) ? NULL : calloc(n + (n == 0), size);
}

void *plb_realloc(void *old, size_t n, size_t size)
{
    return refused(n, size) ? NULL : advised(realloc(old, n * size + (n * size == 0)), n * size);
}

void plb_free(void *p)
{
    free(p);
}

void plb_mem_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void plb_free_all(void *const *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(p[i]);
    }
}
