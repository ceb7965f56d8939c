#include "replay/calendar.h"

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

/* Return the number of the bucket of a time, but at most `most`. */
static int64_t bucket_of(const plb_calendar_t *self, double time, int64_t most)
{
    const double bucket = time / self->width;
    return bucket < (double)most ? (int64_t)bucket : most;
}

int plb_calendar_push(plb_calendar_t *self, double time, int64_t owner, plb_err_t *err)
{
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

int plb_calendar_take(plb_calendar_t *self, plb_event_t *out, int *n, plb_err_t *err)
{
    *n = 0;
    while (*n == 0 && self->n > 0) {
        const int64_t at = self->now & (self->n_buckets - 1);
        const int32_t c = self->first[at];
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
