/* If Zoltan fails on one rank only, the other ranks may wait inside Zoltan, where no message
 * reaches them.  If they do not return within PYLB_ABORT_AFTER seconds, the rank that failed
 * prints its error and aborts the job. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <mpi.h>

typedef struct plb_patience {
    MPI_Comm comm;
    FILE *file; /* for the error */
    const char *why;
    bool begun, over;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
} plb_patience_t;

/** Call these before and after the exchange with the other ranks.  why: the error of this rank;
 * NULL: it has not failed, and no wait is limited. */
void plb_patience_begin(plb_patience_t *self, MPI_Comm comm, FILE *file, const char *why);
void plb_patience_end(plb_patience_t *self);
