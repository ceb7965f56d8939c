/* The critical path of recorded operations, and of the same program if a procedure were changed.
 */
#ifndef FUZZ_CRITICAL_H
#define FUZZ_CRITICAL_H

#include "feed.h"
#include "plb.h"
#include "whatif/whatif.h"

/** Pair the messages, find the paths, and check them.  fail_at: the argument of plb_mem_fail_at.
 */
void critical_call(feed_t *feed, const plb_streams_t *streams, int64_t fail_at);

#endif
