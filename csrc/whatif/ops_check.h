/* Kinds of operations, and the check of what comes from a file. */
#ifndef PLB_WHATIF_OPS_CHECK_H
#define PLB_WHATIF_OPS_CHECK_H

#include <stdbool.h>

#include "base/err.h"
#include "whatif/ops.h"

bool plb_op_is_send(const plb_op_t *op);
bool plb_op_is_receive(const plb_op_t *op);
bool plb_op_has_request(const plb_op_t *op);

/** PLB_ERR_FORMAT where operation `at` of a rank names a rank, communicator or request that cannot
 *  be, or has negative times or bytes. */
int plb_op_check(const plb_op_t *op, int32_t rank, int64_t at, int32_t n_ranks,
                 const plb_comms_t *comms, plb_err_t *err);

#endif
