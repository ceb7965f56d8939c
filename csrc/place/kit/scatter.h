/* Scatter decomposition (Nicol and Saltz, "An analysis of scatter decomposition", IEEE
 * Transactions on Computers 39, 1990): neighbours go to different ranks, which then stay balanced
 * when heavy regions move, grow or shrink.  Every rank gets one of each p successive objects: the
 * rank with the shortest time so far gets the heaviest (ties: the lowest index or rank). */
#pragma once

#include <stdbool.h>

#include "model/snapshot.h"

/** Whether all objects may migrate, and the snapshot has neither speeds nor memory limits. */
bool plb_may_scatter(const plb_snapshot_t *in);

/** Write the new rank of each object to rank[n_objects]. */
int plb_scatter_objects(const plb_snapshot_t *in, int32_t *rank, plb_err_t *err);
