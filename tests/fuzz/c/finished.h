/* Calls that take a finished partition: its figures, new numbers of its parts, the objects that
 * move; and the fill of an elimination order. */
#ifndef FUZZ_FINISHED_H
#define FUZZ_FINISHED_H

#include "feed.h"

/** Make one such call on drawn arrays, and check its answer.  fail_at: the argument of
 * plb_mem_fail_at. */
void finished_call(feed_t *feed, int64_t fail_at);

#endif
