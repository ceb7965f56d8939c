/* What a call and a message cost here. */
#ifndef PLB_WHATIF_RECORDER_CALIBRATE_H
#define PLB_WHATIF_RECORDER_CALIBRATE_H

typedef struct plb_costs {
    double overhead;    /* seconds of a call */
    double alpha, beta; /* of a message between two ranks; -1: this rank has no partner */
} plb_costs_t;

/** Measured once, in some milliseconds, before the program begins.  Collective over the world. */
void plb_calibrate(plb_costs_t *out);

#endif
