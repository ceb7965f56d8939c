/* A calendar queue (Brown 1988): the events of a simulation, in buckets of `width` seconds.  An
 * event of one owner (a rank) affects other owners at least `width` seconds later.  So within a
 * bucket, only the events of the same owner must be processed in order, and a bucket is not sorted
 * (the window of conservative parallel simulation): the caller puts an event back if its owner has
 * an earlier one.  A bucket is a list of arrays (chunks): memory access is mostly sequential. */
#pragma once

#include <stdint.h>

#include "base/err.h"

enum { PLB_CHUNK_EVENTS = 31 };

typedef struct plb_event {
    double time;
    int64_t owner;
} plb_event_t;

typedef struct plb_chunk {
    int32_t next; /* index of the next chunk of the bucket; -1: none */
    int32_t n;
    plb_event_t event[PLB_CHUNK_EVENTS];
} plb_chunk_t;

typedef struct plb_calendar {
    double width;      /* seconds of a bucket */
    int64_t now;       /* number of the bucket that is being emptied; bucket 0 begins at time 0 */
    int64_t n_buckets; /* a power of two; the last bucket also has all later events */
    int32_t *first, *last; /* [n_buckets] first and last chunk of each bucket */
    plb_chunk_t *chunk;
    int64_t room;            /* number of chunks that fit into `chunk` */
    int32_t n_chunks, spare; /* spare: index of the first unused chunk; -1: none */
    int64_t n;               /* number of events in the queue */
} plb_calendar_t;

/** Begin with an empty queue at time 0.  The caller frees it, also after a failure. */
int plb_calendar_init(plb_calendar_t *self, double width, int64_t n_buckets, plb_err_t *err);
void plb_calendar_free(plb_calendar_t *self);

/** Add an event to the bucket of `time`, or to the present bucket if `time` has passed.
 * PLB_ERR_VALUE: the time is 2^46 buckets or later. */
int plb_calendar_push(plb_calendar_t *self, double time, int64_t owner, plb_err_t *err);

/** Take up to PLB_CHUNK_EVENTS events of the earliest bucket that has any.  A later call takes
 * events that are meanwhile added to the same bucket.  *n = 0: there are no more events. */
int plb_calendar_take(plb_calendar_t *self, plb_event_t *out, int *n, plb_err_t *err);
