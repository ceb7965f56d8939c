/* Prints a message some seconds after the program has ended, and may end the process.  By then
 * the process may wait in MPI_Finalize forever, while other ranks wait for it in another call:
 * nothing else can report this. */
#ifndef PLB_BASE_LAST_WORDS_H
#define PLB_BASE_LAST_WORDS_H

#include <stdbool.h>

/** Write `text` (at most 500 bytes) to standard error after `seconds`, by SIGALRM.  `ends`:
 * true: the process then ends at once with code 1; false: it goes on. */
void plb_last_words(double seconds, const char *text, bool ends);

#endif
