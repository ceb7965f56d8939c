/* The communication of the C library by MPI, on duplicates of the user's communicator. */
#pragma once

#include <mpi.h>

#include "comm/transport.h"

/** Return `mine` if it is an error, else the lowest code of all ranks, with an error that names
 * the rank.  So if one rank has failed, all fail.  Collective. */
int plb_agree(MPI_Comm comm, int mine, plb_err_t *err);

/** Make the version for MPI.  Collective.  The caller owns it and frees it by (*out)->free, which
 * is collective, too. */
int plb_transport_mpi(plb_transport_t **out, MPI_Comm user, plb_err_t *err);
