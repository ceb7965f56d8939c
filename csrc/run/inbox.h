/* The order in which the objects of a rank read their messages. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** Sort m messages by receiver, source and order of arrival.  to[m]: the receivers, 0 ... n-1; -1:
 * the receiver is not on this rank, and its message is left out.  source[m]: keys of the senders.
 * Results: order[m] and start[n + 1]; object i reads order[start[i]] ... order[start[i + 1] - 1].
 * Time: O(n + m) if an object's messages arrive in order of their sources, else O(n + m log m). */
int plb_inbox_order(const int32_t *to, const int64_t *source, int64_t m, int64_t n, int64_t *start,
                    int32_t *order, plb_err_t *err);
