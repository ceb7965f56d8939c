/* Begins a recording after MPI_Init, and ends it before MPI_Finalize. */
#pragma once

#include <stdbool.h>

void plb_record_start(int provided);
void plb_record_end(bool finalized);
