/* Prints a message, and may end the process, if it still runs some seconds after the program's
 * end.  So a deadlock is reported in which this process waits in MPI_Finalize, while other ranks
 * wait for it in another call. */
#pragma once

#include <stdbool.h>

/** Write `text` (at most 500 bytes) to standard error after `seconds`, in a handler of SIGALRM. If
 * `ends`, the process then ends at once with code 1. */
void plb_last_words(double seconds, const char *text, bool ends);
