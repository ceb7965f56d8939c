/* Prints a message, and may end the process, if the process still exists some seconds after the
 * user's program has finished.  This reports a deadlock: the process waits in MPI_Finalize, while
 * other ranks wait for this process in another call. */
#pragma once

#include <stdbool.h>

/** Write `text` (at most 500 bytes) to standard error after `seconds`, in a handler of SIGALRM. If
 * `ends`, the process then ends at once with code 1. */
void plb_last_words(double seconds, const char *text, bool ends);
