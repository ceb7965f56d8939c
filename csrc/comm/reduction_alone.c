#include "comm/transport.h"

#include <string.h>

#include "base/mem.h"

typedef struct alone {
    int depth;
    int64_t begun, taken; /* numbers of reductions of statistics: begun; completed */
    bool has_maximum;
    int64_t maximum[PLB_MAXIMA];
    plb_stats_t ring[];
} alone_t;

static int begin_stats(void *self, const plb_stats_t *mine, plb_err_t *err)
{
    alone_t *s = self;
    PLB_FAIL_IF(s->begun - s->taken == s->depth, err, PLB_ERR_STATE,
                "%d reductions are under way: expected fewer before another one begins", s->depth);
    s->ring[s->begun++ % s->depth] = *mine;
    return PLB_OK;
}

static int test_stats(void *self, plb_stats_t *all, bool *done, plb_err_t *err)
{
    alone_t *s = self;
    (void)err;
    *done = s->taken < s->begun;
    if (*done) {
        *all = s->ring[s->taken++ % s->depth];
    }
    return PLB_OK;
}

static int begin_maximum(void *self, const int64_t mine[PLB_MAXIMA], plb_err_t *err)
{
    alone_t *s = self;
    (void)err;
    memcpy(s->maximum, mine, sizeof s->maximum);
    s->has_maximum = true;
    return PLB_OK;
}

static int test_maximum(void *self, int64_t all[PLB_MAXIMA], bool *done, plb_err_t *err)
{
    alone_t *s = self;
    (void)err;
    *done = s->has_maximum;
    memcpy(all, s->maximum, sizeof s->maximum);
    s->has_maximum = false;
    return PLB_OK;
}

int plb_reduction_alone(plb_reduction_t *out, int depth, plb_err_t *err)
{
    alone_t *s = plb_malloc(1, sizeof *s + (size_t)depth * sizeof *s->ring);
    PLB_FAIL_IF(s == NULL, err, PLB_ERR_NOMEM, "out of memory: %d records", depth);
    *s = (alone_t){.depth = depth};
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
