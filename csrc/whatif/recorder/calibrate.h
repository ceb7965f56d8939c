/* Measures the cost of an MPI call and of a message. */
#pragma once

typedef struct plb_call_costs {
    double overhead;    /* seconds of a call */
    double alpha, beta; /* seconds per message and per byte between two ranks; -1: this rank has no
                           partner */
} plb_call_costs_t;

/** Measure the costs before the program begins.  This takes some milliseconds.  Collective over
 * MPI_COMM_WORLD. */
void plb_calibrate(plb_call_costs_t *out);
