/* The communication of the C library by MPI, on duplicates of the user's communicator. */
#pragma once

#include <mpi.h>

#include "comm/transport.h"

/** Make the transport for MPI; the caller frees it by (*out)->free.  Both calls are collective.
 * patience: what to do if another rank is late in this call. */
int plb_transport_mpi(plb_transport_t **out, MPI_Comm user, const plb_patience_t *patience,
                      plb_err_t *err);
