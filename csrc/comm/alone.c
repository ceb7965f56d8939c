/* Communication of a single rank: nothing travels. */
#include "comm/transport.h"

#include <string.h>

#include "base/base.h"

/* ---- reductions ----------------------------------------------------------------------------- */

typedef struct ring {
    int depth;
    int64_t begun, taken; /* numbers of reductions of statistics: begun; completed */
    bool has_maximum;
    int64_t maximum[PLB_MAXIMA];
    plb_stats_t ring[];
} ring_t;

static int begin_stats(void *self, const plb_stats_t *mine, plb_err_t *err)
{
    ring_t *s = self;
    PLB_FAIL_IF(s->begun - s->taken == s->depth, err, PLB_ERR_STATE,
                "%d reductions are under way: expected fewer before another one begins", s->depth);
    s->ring[s->begun++ % s->depth] = *mine;
    return PLB_OK;
}

static int test_stats(void *self, plb_stats_t *all, bool *done, plb_err_t *err)
{
    ring_t *s = self;
    *done = s->taken < s->begun;
    if (*done) {
        *all = s->ring[s->taken++ % s->depth];
    }
    return PLB_OK;
}

static int begin_maximum(void *self, const int64_t mine[PLB_MAXIMA], plb_err_t *err)
{
    ring_t *s = self;
    memcpy(s->maximum, mine, sizeof s->maximum);
    s->has_maximum = true;
    return PLB_OK;
}

static int test_maximum(void *self, int64_t all[PLB_MAXIMA], bool *done, plb_err_t *err)
{
    ring_t *s = self;
    *done = s->has_maximum;
    memcpy(all, s->maximum, sizeof s->maximum);
    s->has_maximum = false;
    return PLB_OK;
}

int plb_reduction_alone(plb_reduction_t *out, int depth, plb_err_t *err)
{
    ring_t *s = plb_malloc(1, sizeof *s + (size_t)depth * sizeof *s->ring);
    PLB_FAIL_IF(s == NULL, err, PLB_ERR_NOMEM, "out of memory: %d records", depth);
    *s = (ring_t){.depth = depth};
    *out = (plb_reduction_t){.self = s,
                             .rank = 0,
                             .size = 1,
                             .depth = depth,
                             .begin_stats = begin_stats,
                             .test_stats = test_stats,
                             .begin_maximum = begin_maximum,
                             .test_maximum = test_maximum};
    return PLB_OK;
}

void plb_reduction_alone_free(plb_reduction_t *self)
{
    plb_free(self->self);
    self->self = NULL;
}

/* ---- the transport of the C library --------------------------------------------------------- */

typedef struct alone {
    plb_transport_t face;
    plb_reduction_t reduction;
    int64_t bytes; /* bytes of this rank in the most recent gather */
} alone_t;

static int reserve(plb_transport_t *face, int depth, plb_err_t *err)
{
    alone_t *self = (alone_t *)face;
    plb_reduction_alone_free(&self->reduction);
    face->reduction = &self->reduction;
    return plb_reduction_alone(&self->reduction, depth, err);
}

static int gather(plb_transport_t *face, const void *mine, int64_t n, char **all, plb_err_t *err)
{
    *all = NULL;
    if (n < 0) {
        return (int)n;
    }
    PLB_PASS_NEW(*all, n);
    if (n > 0) {
        memcpy(*all, mine, (size_t)n);
    }
    ((alone_t *)face)->bytes = n;
    return PLB_OK;
}

static int agree(plb_transport_t *face, int ret, plb_err_t *err)
{
    return ret;
}

static int leave(plb_transport_t *face, plb_err_t *err)
{
    return PLB_OK;
}

static int bcast(plb_transport_t *face, void *data, int64_t n, plb_err_t *err)
{
    return PLB_OK;
}

static int begin_exchange(plb_transport_t *face, int failed, const char *from, const int64_t *send,
                          char *to, const int64_t *receive, int64_t bytes, plb_exchange_t **out,
                          plb_err_t *err)
{
    *out = NULL;
    return failed;
}

static int end_exchange(plb_transport_t *face, plb_exchange_t *exchange, plb_err_t *err)
{
    return PLB_OK;
}

static void free_alone(plb_transport_t *face)
{
    plb_reduction_alone_free(&((alone_t *)face)->reduction);
    plb_free(face);
}

int plb_transport_alone(plb_transport_t **out, plb_err_t *err)
{
    alone_t *self = NULL;
    PLB_PASS_NEW0(self, 1);
    self->face = (plb_transport_t){.size = 1,
                                   .reserve = reserve,
                                   .gather = gather,
                                   .agree = agree,
                                   .leave = leave,
                                   .sizes = &self->bytes,
                                   .bcast = bcast,
                                   .begin_exchange = begin_exchange,
                                   .end_exchange = end_exchange,
                                   .free = free_alone};
    *out = &self->face;
    return PLB_OK;
}
