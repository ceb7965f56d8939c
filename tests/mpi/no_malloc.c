/* Preloaded by tests/base/test_no_memory.py: lets the n-th allocation of some shared libraries
 * fail, and counts their allocated blocks that were not freed yet.
 *
 *   NO_MALLOC_IN=text   environment variable: watch the libraries whose path contains this text
 *   NO_MALLOC_LEAST=n   environment variable: only allocations of n bytes or more can fail
 *   no_malloc_at(n)     let the n-th allocation from now fail (0: the next); -1: none
 *   no_malloc_failed()  return whether that allocation has failed
 *   no_malloc_live()    return the number of blocks that were not freed yet
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

enum { SLOTS = 1 << 20, RANGES = 32 };

static _Atomic int64_t fail_at = -1, live;
static _Atomic int failed;
static _Atomic uintptr_t slot[SLOTS]; /* addresses of live blocks; 1: a slot that was freed */
static _Thread_local bool inside;

/* Pages of code that have allocated, and whether they belong to a watched library. */
static struct {
    _Atomic uintptr_t page;
    _Atomic int watched;
} known[1 << 12];

static bool look_up(const void *caller)
{
    Dl_info info;
    const char *text = getenv("NO_MALLOC_IN");
    return text != NULL && dladdr(caller, &info) != 0 && strstr(info.dli_fname, text) != NULL;
}

static bool watched(const void *caller)
{
    const uintptr_t page = (uintptr_t)caller >> 12;
    const size_t at = page % (sizeof known / sizeof *known);
    if (inside) {
        return false;
    }
    if (atomic_load(&known[at].page) != page) {
        inside = true; /* dladdr may allocate */
        const bool is = look_up(caller);
        inside = false;
        atomic_store(&known[at].page, 0);
        atomic_store(&known[at].watched, is);
        atomic_store(&known[at].page, page);
        return is;
    }
    return atomic_load(&known[at].watched);
}

static bool refused(size_t size)
{
    static _Atomic int64_t least = -1;
    if (atomic_load(&least) < 0) {
        const char *text = getenv("NO_MALLOC_LEAST");
        atomic_store(&least, text == NULL ? 0 : atoll(text));
    }
    if (size < (size_t)atomic_load(&least) || atomic_load(&fail_at) < 0 ||
        atomic_fetch_sub(&fail_at, 1) != 0) {
        return false;
    }
    atomic_store(&failed, 1);
    return true;
}

static size_t begin_of(uintptr_t address)
{
    return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 44) % SLOTS;
}

static void *remember(void *block)
{
    const uintptr_t address = (uintptr_t)block;
    for (size_t i = 0, at = begin_of(address); block != NULL && i < SLOTS; i++) {
        uintptr_t was = atomic_load(&slot[(at + i) % SLOTS]);
        if (was <= 1 && atomic_compare_exchange_strong(&slot[(at + i) % SLOTS], &was, address)) {
            atomic_fetch_add(&live, 1);
            break;
        }
    }
    return block;
}

static void forget(void *block)
{
    const uintptr_t address = (uintptr_t)block;
    for (size_t i = 0, at = begin_of(address); block != NULL && i < SLOTS; i++) {
        uintptr_t was = atomic_load(&slot[(at + i) % SLOTS]);
        if (was == 0) {
            break;
        }
        if (was == address) {
            atomic_store(&slot[(at + i) % SLOTS], 1);
            atomic_fetch_sub(&live, 1);
            break;
        }
    }
}

void *malloc(size_t size)
{
    if (!watched(__builtin_return_address(0))) {
        return __libc_malloc(size);
    }
    return refused(size) ? NULL : remember(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    if (!watched(__builtin_return_address(0))) {
        return __libc_calloc(n, size);
    }
    return refused(n * size) ? NULL : remember(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
    const bool is = watched(__builtin_return_address(0));
    if (is && refused(size)) {
        return NULL;
    }
    forget(old);
    void *block = __libc_realloc(old, size);
    return is ? remember(block) : block;
}

void free(void *block)
{
    forget(block);
    __libc_free(block);
}

__attribute__((visibility("default"))) void no_malloc_at(int64_t n)
{
    atomic_store(&failed, 0);
    atomic_store(&fail_at, n);
}

__attribute__((visibility("default"))) int no_malloc_failed(void)
{
    return atomic_load(&failed);
}

__attribute__((visibility("default"))) int64_t no_malloc_live(void)
{
    return atomic_load(&live);
}
