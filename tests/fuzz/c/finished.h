/* Calls about finished partitions: figures, new names of parts, moves, the fill of an order. */
#ifndef FUZZ_FINISHED_H
#define FUZZ_FINISHED_H

#include "feed.h"

/** Make one such call on drawn arrays, and check its answer.  fail_at: as of plb_mem_fail_at. */
void finished_call(feed_t *feed, int64_t fail_at);

#endif
