/* The communication of the C library by MPI, on duplicates of the user's communicator. */
#pragma once

#include <mpi.h>

#include "comm/transport.h"

/** Make the transport for MPI; the caller frees it by (*out)->free.  Both calls are collective. */
int plb_transport_mpi(plb_transport_t **out, MPI_Comm user, plb_err_t *err);
