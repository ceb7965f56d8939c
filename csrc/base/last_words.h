/* Prints a message some seconds after the program has ended, and may end the process.  This
 * reports a deadlock that nothing else can report: this process waits in MPI_Finalize, and other
 * ranks wait for it in another call. */
#ifndef PLB_BASE_LAST_WORDS_H
#define PLB_BASE_LAST_WORDS_H

#include <stdbool.h>

/** Write `text` (at most 500 bytes) to standard error after `seconds`, in a handler of SIGALRM.
 * ends: true: the process then ends at once with code 1; false: it goes on. */
void plb_last_words(double seconds, const char *text, bool ends);

#endif
