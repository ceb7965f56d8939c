#include "replay/calendar.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

int plb_calendar_init(plb_calendar_t *self, double width, int64_t n_buckets, plb_err_t *err)
{
    *self = (plb_calendar_t){.width = width, .n_buckets = n_buckets, .spare = -1};
    PLB_PASS_NEW(self->first, n_buckets);
    PLB_PASS_NEW(self->last, n_buckets);
    memset(self->first, -1, (size_t)n_buckets * sizeof *self->first);
    return PLB_OK;
}

void plb_calendar_free(plb_calendar_t *self)
{
    PLB_FREE(self->first, self->last, self->chunk);
    *self = (plb_calendar_t){.spare = -1};
}

static int new_chunk(plb_calendar_t *self, int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    if (self->spare >= 0) {
        *out = self->spare;
        self->spare = self->chunk[*out].next;
        return ret;
    }
    PLB_GROW(self->chunk, self->room, self->n_chunks + 1);
    *out = self->n_chunks++;
out:
    return ret;
}

/* In later buckets, times would be rounded by more than 1/64 of a bucket. */
static const double MOST_BUCKETS = 0x1p46;

/* Return the number of the bucket of a time, but at most `most`. */
static int64_t bucket_of(const plb_calendar_t *self, double time, int64_t most)
{
    const double bucket = time / self->width;
    return bucket < (double)most ? (int64_t)bucket : most;
}

int plb_calendar_push(plb_calendar_t *self, double time, int64_t owner, plb_err_t *err)
{
    PLB_FAIL_IF(!(time <= MOST_BUCKETS * self->width), err, PLB_ERR_VALUE,
                "an event at %g s, and messages that take about %g s: expected a time below 2^46 "
                "times that of a message",
                time, self->width);
    int64_t bucket = bucket_of(self, time, self->now + self->n_buckets - 1);
    bucket = bucket < self->now ? self->now : bucket;
    const int64_t at = bucket & (self->n_buckets - 1);
    int32_t c = self->first[at] < 0 ? -1 : self->last[at];
    if (c < 0 || self->chunk[c].n == PLB_CHUNK_EVENTS) {
        int32_t fresh = -1;
        PLB_PASS(new_chunk(self, &fresh, err));
        self->chunk[fresh].n = 0;
        self->chunk[fresh].next = -1;
        if (c < 0) {
            self->first[at] = fresh;
        } else {
            self->chunk[c].next = fresh;
        }
        self->last[at] = c = fresh;
    }
    self->chunk[c].event[self->chunk[c].n++] = (plb_event_t){time, owner};
    self->n++;
    return PLB_OK;
}

static double earliest(const plb_calendar_t *self)
{
    double out = INFINITY;
    for (int64_t at = 0; at < self->n_buckets; at++) {
        for (int32_t c = self->first[at]; c >= 0; c = self->chunk[c].next) {
            for (int32_t i = 0; i < self->chunk[c].n; i++) {
                out = fmin(out, self->chunk[c].event[i].time);
            }
        }
    }
    return out;
}

/* All events are later than the last bucket: go on with the bucket of the earliest one. */
static int skip(plb_calendar_t *self, plb_err_t *err)
{
    int32_t list = -1;
    self->now = bucket_of(self, earliest(self), INT64_MAX / 2);
    for (int64_t at = 0; at < self->n_buckets; at++) {
        if (self->first[at] >= 0) {
            self->chunk[self->last[at]].next = list;
            list = self->first[at];
            self->first[at] = -1;
        }
    }
    self->n = 0;
    while (list >= 0) {
        const int32_t c = list, n = self->chunk[c].n;
        plb_event_t event[PLB_CHUNK_EVENTS];
        memcpy(event, self->chunk[c].event, (size_t)n * sizeof *event);
        list = self->chunk[c].next;
        self->chunk[c].next = self->spare;
        self->spare = c;
        for (int32_t i = 0; i < n; i++) {
            PLB_PASS(plb_calendar_push(self, event[i].time, event[i].owner, err));
        }
    }
    return PLB_OK;
}

int plb_calendar_take(plb_calendar_t *self, plb_event_t *out, int *n, plb_err_t *err)
{
    *n = 0;
    for (int64_t empty = 0; *n == 0 && self->n > 0;) {
        const int64_t at = self->now & (self->n_buckets - 1);
        const int32_t c = self->first[at];
        if (empty > self->n_buckets) {
            PLB_PASS(skip(self, err));
            empty = 0;
            continue;
        }
        empty++;
        if (c < 0) {
            self->now++;
            continue;
        }
        const int32_t here = self->chunk[c].n;
        memcpy(out, self->chunk[c].event, (size_t)here * sizeof *out);
        self->first[at] = self->chunk[c].next;
        self->chunk[c].next = self->spare;
        self->spare = c;
        self->n -= here;
        /* events later than the last bucket had been put into that bucket: push them again */
        for (int i = 0; i < here; i++) {
            if (bucket_of(self, out[i].time, self->now + 1) <= self->now) {
                out[(*n)++] = out[i];
            } else {
                PLB_PASS(plb_calendar_push(self, out[i].time, out[i].owner, err));
            }
        }
    }
    return PLB_OK;
}
