/* Lets a signal end a long loop.
 *
 * A long loop regularly calls plb_interrupted(n), where n is the number of steps since the last
 * call.  Every PLB_TICK_NS nanoseconds, plb_interrupted calls the thread's function that checks
 * for signals (plb_interrupt_set).  After PLB_ERR_INTERRUPTED, all later calls return this code.
 * So a function without a return code can return early; then its caller calls plb_interrupted(0).
 */
#pragma once

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

/* With this number of steps, plb_interrupted always reads the clock. */
#define PLB_INTERRUPT_NOW (INT64_C(1) << 40)

/** Count `steps` of about 10 ns each; check for signals if the last check was PLB_TICK_NS ago. */
int plb_interrupted(int64_t steps);
