/* Lets a signal end long loops.
 *
 * A loop that can take long says now and then how much it has done:
 *
 *     ret = plb_interrupted(n);          PLB_OK, or PLB_ERR_INTERRUPTED
 *
 * Who calls the core sets what looks for signals (plb_interrupt_set), for this thread.  It is
 * asked every few milliseconds.  After an interrupt each further call says so as well, so that a
 * function without a code may simply return early, and its caller asks again with n = 0.
 */
#ifndef PLB_BASE_INTERRUPT_H
#define PLB_BASE_INTERRUPT_H

#include <stdint.h>

#include "base/err.h"

typedef struct plb_interrupt {
    plb_tick_fn look; /* NULL: nothing interrupts this thread */
    void *arg;
    int64_t left;  /* steps until the clock is read again */
    int64_t since; /* ns: when it last looked */
    int code;      /* PLB_OK, or what it was told */
} plb_interrupt_t;

/** Set what looks for signals on this thread; returns what did before. */
plb_interrupt_t plb_interrupt_set(plb_interrupt_t now);

/* As many steps as make it read the clock. */
#define PLB_INTERRUPT_NOW (INT64_C(1) << 40)

/** Count `steps`, each of some 10 ns; look for a signal if it is time. */
int plb_interrupted(int64_t steps);

#endif
