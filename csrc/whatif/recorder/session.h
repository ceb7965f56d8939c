/* Begin and end of a recording, when MPI_Init has returned and before MPI_Finalize. */
#ifndef PLB_WHATIF_RECORDER_SESSION_H
#define PLB_WHATIF_RECORDER_SESSION_H

#include <stdbool.h>

void plb_record_start(int provided);
void plb_record_end(bool finalized);

#endif
