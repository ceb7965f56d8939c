/* Lets a signal end a long loop.
 *
 * A loop that may run for a long time regularly calls plb_interrupted, with the number n of steps
 * since the previous call:
 *
 *     ret = plb_interrupted(n);          PLB_OK, or PLB_ERR_INTERRUPTED
 *
 * The program sets a function that checks for signals on this thread (plb_interrupt_set), and
 * plb_interrupted calls it every few milliseconds.  After an interrupt, every later call also
 * returns PLB_ERR_INTERRUPTED.  So a function without a return code can return early, and its
 * caller calls plb_interrupted(0). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct plb_interrupt {
    plb_tick_fn check; /* checks for signals; NULL: nothing interrupts this thread */
    void *arg;
    int64_t left;  /* steps until the clock is read again */
    int64_t since; /* ns: time of the most recent call of `check` */
    int code;      /* the code that `check` returned most recently */
} plb_interrupt_t;

/** Set the function that checks for signals on this thread; return the previous setting. */
plb_interrupt_t plb_interrupt_set(plb_interrupt_t now);

/* A number of steps that is so large that plb_interrupted reads the clock at once. */
#define PLB_INTERRUPT_NOW (INT64_C(1) << 40)

/** Count `steps` of about 10 ns each; check for signals if the last check was 5 ms ago or more. */
int plb_interrupted(int64_t steps);

/** Whether a signal can interrupt this thread. */
bool plb_interruptible(void);
