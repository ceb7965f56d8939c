/* Kinds of operations, and checks of operations from a file. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "whatif/ops.h"

bool plb_op_is_send(const plb_op_t *op);
bool plb_op_is_receive(const plb_op_t *op);
bool plb_op_has_request(const plb_op_t *op);

extern const char *const plb_one_sided_names[PLB_N_ONE_SIDED]; /* without MPI_ */

/** Check operation `at` of a rank: PLB_ERR_VALUE if it is one-sided; PLB_ERR_FORMAT if its kind,
 * peer, communicator, request, collective or own rank is impossible, or its processor time (ns) or
 * bytes not in 0 ... 2^53. */
int plb_op_check(const plb_op_t *op, int32_t rank, int64_t at, int32_t n_ranks,
                 const plb_comms_t *comms, plb_err_t *err);
