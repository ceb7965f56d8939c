/* Asks a partitioning library; a signal can end the wait, although libraries ignore signals. */
#pragma once

#include "partition/question.h"

/** Let a library answer a question that has been checked.  If signals can interrupt this thread
 * and the library's `left` is not NULL, a large question is copied, and answered in another
 * thread, except on a virtual rank. */
int plb_partition_aside(const plb_partitioner_t *with, const plb_question_t *in, int32_t *part,
                        plb_err_t *err);
