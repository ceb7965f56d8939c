/* A calendar queue (Brown 1988) of events in time, for a simulation in which no event has an
 * effect on another owner sooner than `width` seconds later: events of one bucket are then given
 * in any order, and nothing is ever sorted (the window of conservative parallel simulation).
 *
 * Each event costs a write and a read of 16 bytes, in chunks that are filled one behind the other.
 */
#ifndef PLB_REPLAY_CALENDAR_H
#define PLB_REPLAY_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PLB_CHUNK_EVENTS = 31 };

typedef struct plb_event {
    double time;
    int64_t owner;
} plb_event_t;

typedef struct plb_chunk {
    int32_t next; /* chunk, or -1 */
    int32_t n;
    plb_event_t event[PLB_CHUNK_EVENTS];
} plb_chunk_t;

typedef struct plb_calendar {
    double width;          /* seconds of a bucket */
    int64_t now;           /* bucket that is being emptied, from time 0 */
    int64_t n_buckets;     /* a power of two: later events wait in the last one */
    int32_t *first, *last; /* [n_buckets] chunks */
    plb_chunk_t *chunk;
    int64_t room;            /* chunks */
    int32_t n_chunks, spare; /* spare: first unused chunk, or -1 */
    int64_t n;               /* events that wait */
} plb_calendar_t;

/** Empty, at time 0.  The caller frees it, also after a failure. */
int plb_calendar_init(plb_calendar_t *self, double width, int64_t n_buckets, plb_err_t *err);
void plb_calendar_free(plb_calendar_t *self);

/** An event in the bucket of `time`, or in the present one if that is over. */
int plb_calendar_push(plb_calendar_t *self, double time, int64_t owner, plb_err_t *err);

/** Take up to PLB_CHUNK_EVENTS events of the earliest bucket that has any; what they cause in the
 *  same bucket comes with a later call.  *n = 0: there are no more events. */
int plb_calendar_take(plb_calendar_t *self, plb_event_t *out, int *n, plb_err_t *err);

#endif
