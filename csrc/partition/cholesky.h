#pragma once

#include <stdint.h>

#include "base/err.h"

/** Count the entries of each column of the Cholesky factor L of a symmetric graph, with the
 * diagonal: column[n], in the new order.  perm[n]: new number of each vertex.  PLB_ERR_VALUE: perm
 * is no permutation.  Time O(entries of L), memory O(n) (symbolic part of Davis' LDL, 2005). */
int plb_cholesky_fill(int32_t n, const int64_t *start, const int32_t *to, const int32_t *perm,
                      int64_t *column, plb_err_t *err);
