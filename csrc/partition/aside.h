/* Asks a partitioning library in such a way that a signal can end the wait, although the library
 * ignores signals. */
#pragma once

#include "partition/question.h"

/** Let a library answer a question that has been checked.  If signals can interrupt this thread
 * and `left` of the library is not NULL, a large question is copied, and the library answers it in
 * a separate thread.  On a virtual rank, the library always runs in this thread. */
int plb_partition_aside(const plb_partitioner_t *with, const plb_question_t *in, int32_t *part,
                        plb_err_t *err);
