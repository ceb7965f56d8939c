/* Requests: maps MPI's handles to operations. */
#pragma once

#include <stdbool.h>

#include "groups.h"
#include "whatif/ops.h"

/** Record a new request.  `op` is logged now or, if the request is persistent, at each start. */
void plb_request_made(MPI_Request request, plb_op_t op, const plb_group_t *group, bool persistent);
/** Record a persistent request with MPI_PROC_NULL, of which nothing is logged. */
void plb_request_to_nobody(MPI_Request request);
void plb_request_started(MPI_Request request);
void plb_request_freed(MPI_Request request);
void plb_request_cancelled(MPI_Request request);

/** Log a wait for a request, or a test of it.  flag: whether the request is complete; was: the
 * request's handle before the call.  plb_requests_all: for all of n requests. */
void plb_request_tested(int flag, uint64_t was, const MPI_Status *status);
void plb_requests_all(int flag, int n, const uint64_t *was, const MPI_Status *status);
/** Log the completion of the requests index[n].  Indices count from `base`: 0 in C, 1 in Fortran.
 * n is 0: none is complete; n < 0: no request was active. */
void plb_requests_some(int n, const int *index, int base, const uint64_t *was,
                       const MPI_Status *status);
void plb_requests_any(int flag, int index, const uint64_t *was, const MPI_Status *status);

/** Log the beginning of an operation, and return its new request number. */
int32_t plb_note_begun(plb_op_t op);
/** Log the completion of an operation.  received: the operation that has the source and tag of the
 * received message; NULL: for a send, or for a receive without wildcards. */
void plb_note_complete(int32_t number, const plb_op_t *received);
