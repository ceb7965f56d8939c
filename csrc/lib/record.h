/* The run record of an advisor: JSON that `pylb report` and pylb.RunRecord.read can read. */
#pragma once

#include "lib/advisor.h"

/** Gather the loads of the ranks, and write the record, if one was asked for.  failed: PLB_OK, or
 * the code of an error of this rank.  Collective; an error is raised on all ranks. */
int plb_lib_record_write(plb_lib_advisor_t *self, int failed, plb_err_t *err);
