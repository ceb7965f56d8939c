/* Moves and exchanges of single objects between ranks, chosen by load and communication. */
#pragma once

#include "place/kit/ranks.h"

/** While the slowest rank takes more than `limit` seconds, move one of its objects to another
 * rank, or exchange the object for one of that rank.  The other rank is one of the few ranks with
 * the shortest times, or one with which the slowest rank's objects communicate.  Take the step
 * after which the slower of the two ranks takes the shortest time; if several steps reach the
 * limit, take the one that saves the most communication.
 *
 * comm[p]: seconds that each rank spends on sending, updated by each step; NULL: messages are not
 * part of the ranks' times.  alpha, beta: costs of messages as in plb_affinity_init.  Ties: the
 * lowest number of the object, then of the other rank, then of that rank's object.  The search
 * also ends if no step helps the slowest rank, and after a fixed amount of work (about 0.1 s). */
int plb_swaps(plb_ranks_t *ranks, double *comm, double alpha, double beta, double limit,
              plb_err_t *err);
