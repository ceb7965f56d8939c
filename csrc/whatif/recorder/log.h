/* The log of operations: clocks are read around each call of MPI, and what it did is buffered for
 * the monitor.
 *
 * Only calls by the thread that called MPI_Init are noted.  Calls that MPI makes itself, and those
 * before MPI_Init or after MPI_Finalize, pass through unseen.
 */
#ifndef PLB_WHATIF_RECORDER_LOG_H
#define PLB_WHATIF_RECORDER_LOG_H

#include <stdbool.h>
#include <time.h>

#include "whatif/ops.h"

#define PLB_EXPORT __attribute__((visibility("default")))

/** Nanoseconds. */
int64_t plb_now(clockid_t clock);

/** Called by the thread whose calls count; true: the kernel says how long it waited for a
 *  processor. */
bool plb_log_prepare(void);
void plb_log_begin(bool on);
void plb_log_end(bool finalized);

/** Whether the call is to be noted: then clocks have been read, and plb_leave must follow. */
bool plb_enter(void);
void plb_leave(void);
/** An operation of the present call; the first one gets the time since the last call. */
void plb_note(plb_op_t op);
/** The call was a question that is repeated until the answer is yes. */
void plb_polled(void);
/** Count by name something that the recording lacks. */
void plb_lacks(const char *what);

#endif
