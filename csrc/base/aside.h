/* Runs a library call in a thread of its own, because the library does not check for signals.  A
 * signal then ends the caller's wait within milliseconds, while the thread goes on until the
 * library returns. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

typedef struct plb_aside {
    int (*run)(void *data, plb_err_t *err);
    void (*free)(void *data);
    void (*watch)(void); /* the thread that waits calls it every few milliseconds; or NULL */
    atomic_int *left;    /* number of calls that still run, although a signal ended their callers'
                            wait; the next call waits until this number is 0 */
} plb_aside_t;

/** Call `run(data)` in a thread (or here, if no thread can be started), wait for its end, and
 * return its code.  PLB_ERR_INTERRUPTED: a signal came first; `free(data)` is then called at
 * once, or by the thread after `run`.  So the caller must not use `data` any more, and `data` must
 * own all memory to which it points.  After any other code, the caller frees `data`. */
int plb_aside_run(const plb_aside_t *how, void *data, plb_err_t *err);

/** Wait for the end of all calls whose callers no longer wait, because a signal came. */
void plb_aside_wait(atomic_int *left);

/* ---- copies of arrays that the thread owns -------------------------------------------------- */

typedef struct plb_piece {
    const void **at; /* address of the pointer to an array of `bytes` bytes; that pointer may be
                        NULL */
    int64_t bytes;
} plb_piece_t;

#define PLB_PIECE(pointer, n)                                                                     \
    {                                                                                             \
        (const void **)&(pointer), (int64_t)sizeof *(pointer) * (n)                               \
    }

/** Copy all arrays into one block, set each pointer to the copy of its array, and return the
 * block, which plb_free frees.  NULL: out of memory; no pointer has changed. */
void *plb_aside_own(const plb_piece_t *piece, int n);

/** Copy n strings into one block, which plb_free frees; NULL: out of memory. */
const char **plb_aside_words(const char *const *word, int n);
