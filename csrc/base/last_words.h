/* A message, and perhaps the end of the process, some seconds after its program has ended: where
 * it then waits in MPI_Finalize for ranks that wait for it elsewhere, nothing else is left that
 * could speak. */
#ifndef PLB_BASE_LAST_WORDS_H
#define PLB_BASE_LAST_WORDS_H

#include <stdbool.h>

/** Write `text` (at most 500 bytes) to standard error after `seconds`, by SIGALRM; `ends`: then
 *  end the process with code 1, at once. */
void plb_last_words(double seconds, const char *text, bool ends);

#endif
