/* The log: reads the clocks around each MPI call, and buffers the operations of the call.
 *
 * Only calls between MPI_Init and MPI_Finalize by the thread that called MPI_Init are logged;
 * calls that MPI itself makes are not logged. */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "whatif/ops.h"

#define PLB_EXPORT __attribute__((visibility("default")))

int64_t plb_now(clockid_t clock); /* in nanoseconds */

/** Prepare the log.  Called by the thread whose calls are logged.  Returns true if the kernel
 * reports how long the thread waited for a processor. */
bool plb_log_prepare(void);
void plb_log_begin(bool on);
void plb_log_end(bool finalized);

/** Begin a call.  Returns true if the call is logged; then plb_leave must follow. */
bool plb_enter(void);
void plb_leave(void);
/** Log an operation of the present call; the first one gets the processor time before the call. */
void plb_note(plb_op_t op);
/** Mark the present call as a poll, which the program repeats until it succeeds. */
void plb_polled(void);
/** Count a use of the MPI feature `what`, which cannot be recorded.  what: a string literal,
 * because the log keeps the pointer. */
void plb_lacks(const char *what);
/** The same, before a call that is not logged: its processor time counts as computing. */
void plb_lacks_in_call(const char *what);
