/* Begins a recording after MPI_Init, and ends it before MPI_Finalize. */
#ifndef PLB_WHATIF_RECORDER_SESSION_H
#define PLB_WHATIF_RECORDER_SESSION_H

#include <stdbool.h>

void plb_record_start(int provided);
void plb_record_end(bool finalized);

#endif
