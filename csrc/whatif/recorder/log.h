/* The log of operations: reads the clocks around each MPI call, and buffers the operations of the
 * call for the monitor.
 *
 * Only calls by the thread that called MPI_Init are logged.  Calls that MPI itself makes, and
 * calls before MPI_Init or after MPI_Finalize, are not logged.
 */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "whatif/ops.h"

#define PLB_EXPORT __attribute__((visibility("default")))

/** Return the clock's time in nanoseconds. */
int64_t plb_now(clockid_t clock);

/** Prepare the log.  Called by the thread whose calls are logged.  Returns true if the kernel
 * reports how long the thread waited for a processor. */
bool plb_log_prepare(void);
void plb_log_begin(bool on);
void plb_log_end(bool finalized);

/** Begin a call.  Returns true if the call is logged: the clocks have been read, and plb_leave
 * must follow. */
bool plb_enter(void);
void plb_leave(void);
/** Log an operation of the present call.  The first operation of a call gets the processor time
 * since the previous call. */
void plb_note(plb_op_t op);
/** Mark the present call as a poll, which the program repeats until it succeeds. */
void plb_polled(void);
/** Count a use of the MPI feature `what`, which the recorder cannot record.  what: a string
 * literal, because the log keeps the pointer. */
void plb_lacks(const char *what);
