/* Converts between the public snapshot and the internal one. */
#pragma once

#include "lib/pylb.h"
#include "model/snapshot.h"

/** Make the internal view of a public snapshot, and check the snapshot (plb_snapshot_check). */
int plb_lib_view(const pylb_snapshot *from, plb_snapshot_t *out, plb_err_t *err);

/** Make the public view of an internal snapshot, for functions of the program. */
void plb_lib_show(const plb_snapshot_t *from, pylb_snapshot *out);
