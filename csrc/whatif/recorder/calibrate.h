/* Measures the cost of an MPI call and of a message. */
#pragma once

typedef struct plb_call_costs {
    double overhead;    /* seconds of a call */
    double alpha, beta; /* seconds per message and per byte; -1: the rank has no partner */
} plb_call_costs_t;

/** Measure the costs, in some milliseconds.  Collective over MPI_COMM_WORLD. */
void plb_calibrate(plb_call_costs_t *out);
