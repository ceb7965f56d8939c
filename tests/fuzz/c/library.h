/* Libraries of partitioners that are not there: they answer rightly or wrongly, or fail. */
#ifndef FUZZ_LIBRARY_H
#define FUZZ_LIBRARY_H

#include "feed.h"

typedef enum library_answer { LIBRARY_FAILS, LIBRARY_WRONG, LIBRARY_RIGHT } library_answer_t;

extern library_answer_t library_answer; /* the next answer of all libraries */

/** Put "fuzzed", which takes graphs only, and libraries with the names of real ones into the
 * table. */
void library_install(void);

/** Install more libraries until the table is full: the next one must be refused. */
void library_fill_table(void);

#endif
