/* Runs a library call in a second thread, because the library does not check for signals.  A
 * signal ends the caller's wait within milliseconds; the thread runs until the library returns. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

typedef struct plb_aside {
    int (*run)(void *data, plb_err_t *err);
    void (*free)(void *data);
    void (*watch)(void); /* called every few milliseconds during the wait; or NULL */
    atomic_int *left;    /* number of threads that still run after a signal has ended the wait for
                            them; the next plb_aside_run first waits until this number is 0 */
} plb_aside_t;

/** Call `run(data)` in a thread (or here, if no thread can be started), wait for its end, and
 * return its code; the caller then frees `data`.  PLB_ERR_INTERRUPTED: a signal came first; this
 * function or the thread calls `free(data)`, so the caller must not use `data` any more, and
 * `data` must own all memory to which it points. */
int plb_aside_run(const plb_aside_t *how, void *data, plb_err_t *err);

/** Wait until *left is 0. */
void plb_aside_wait(atomic_int *left);

/* ---- copies for the thread: of arrays and of strings ---------------------------------------- */

typedef struct plb_piece {
    const void **at; /* address of the pointer to an array; the pointer may be NULL */
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
