/* Prints a message if the process is still there some seconds after the end of the program, and
 * may then end it.  This reports a deadlock that nothing else can report: this process waits in
 * MPI_Finalize, and other ranks wait for it in another call. */
#ifndef PLB_BASE_LAST_WORDS_H
#define PLB_BASE_LAST_WORDS_H

#include <stdbool.h>

/** Write `text` (at most 500 bytes) to standard error after `seconds`, in a handler of SIGALRM.
 * ends: true: the process then ends at once with code 1; false: it goes on. */
void plb_last_words(double seconds, const char *text, bool ends);

#endif
