/* A rank on which Zoltan fails alone leaves the others waiting inside of Zoltan, where no word
 * reaches them: unless they come within PYLB_ABORT_AFTER seconds, the job ends with that rank's
 * error.
 */
#ifndef PLB_PARTITION_LIBRARIES_ZOLTAN_PATIENCE_H
#define PLB_PARTITION_LIBRARIES_ZOLTAN_PATIENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <mpi.h>

typedef struct plb_patience {
    MPI_Comm comm;
    FILE *file; /* where the error is told */
    const char *why;
    bool begun, over;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
} plb_patience_t;

/** Before the exchange in which the others are expected, and after it; `why` NULL: this rank has
 * not failed, and both do nothing. */
void plb_patience_begin(plb_patience_t *self, MPI_Comm comm, FILE *file, const char *why);
void plb_patience_end(plb_patience_t *self);

#endif
