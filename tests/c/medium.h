/* Reductions (comm/transport.h) between ranks of one process.  A result is complete when all
 * ranks have contributed; it reaches a rank then or later, as `late` says. */
#ifndef TEST_MEDIUM_H
#define TEST_MEDIUM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"

enum { MEDIUM_RANKS = 5 };

typedef struct medium_reduction {
    plb_stats_t stats;
    int64_t maximum[PLB_MAXIMA];
    int n_stats, n_maxima; /* numbers of ranks that have contributed */
} medium_reduction_t;

typedef struct medium medium_t;

typedef struct medium_rank {
    medium_t *medium;
    int begun, taken, begun_max, taken_max;
} medium_rank_t;

struct medium {
    int p;
    bool (*late)(void *arg); /* whether a complete result is still kept back */
    void *arg;
    medium_reduction_t *at; /* [most]: the n-th reduction of each kind */
    int most;
    medium_rank_t rank[MEDIUM_RANKS];
    plb_reduction_t face[MEDIUM_RANKS];
};

static inline void medium_must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "reductions in memory: %s\n", what);
        abort();
    }
}

static inline int medium_begin_stats(void *self, const plb_stats_t *mine, plb_err_t *err)
{
    medium_rank_t *rank = (medium_rank_t *)self;
    medium_t *m = rank->medium;
    medium_must(rank->begun < m->most, "too many");
    medium_reduction_t *at = &m->at[rank->begun++];
    medium_must(rank->begun - rank->taken <= m->face[0].depth, "too many under way");
    if (at->n_stats++ == 0) {
        at->stats = *mine;
    } else {
        plb_stats_merge(&at->stats, mine);
    }
    return PLB_OK;
}

static inline int medium_test_stats(void *self, plb_stats_t *all, bool *done, plb_err_t *err)
{
    medium_rank_t *rank = (medium_rank_t *)self;
    medium_t *m = rank->medium;
    *done = rank->taken < rank->begun && m->at[rank->taken].n_stats == m->p && !m->late(m->arg);
    if (*done) {
        *all = m->at[rank->taken++].stats;
    }
    return PLB_OK;
}

static inline int medium_begin_maximum(void *self, const int64_t mine[PLB_MAXIMA], plb_err_t *err)
{
    medium_rank_t *rank = (medium_rank_t *)self;
    medium_must(rank->begun_max < rank->medium->most, "too many maxima");
    medium_reduction_t *at = &rank->medium->at[rank->begun_max++];
    at->n_maxima++;
    for (int k = 0; k < PLB_MAXIMA; k++) {
        at->maximum[k] = mine[k] > at->maximum[k] ? mine[k] : at->maximum[k];
    }
    return PLB_OK;
}

static inline int medium_test_maximum(void *self, int64_t all[PLB_MAXIMA], bool *done,
                                      plb_err_t *err)
{
    medium_rank_t *rank = (medium_rank_t *)self;
    medium_t *m = rank->medium;
    *done = m->at[rank->taken_max].n_maxima == m->p && !m->late(m->arg);
    if (*done) {
        memcpy(all, m->at[rank->taken_max++].maximum, sizeof m->at->maximum);
    }
    return PLB_OK;
}

/* Begin for p ranks; at[most] is zeroed memory of the caller. */
static inline void medium_init(medium_t *self, int p, int depth, bool (*late)(void *), void *arg,
                               medium_reduction_t *at, int most)
{
    *self = (medium_t){.p = p, .late = late, .arg = arg, .at = at, .most = most};
    for (int r = 0; r < p; r++) {
        self->rank[r] = (medium_rank_t){.medium = self};
        self->face[r] = (plb_reduction_t){.self = &self->rank[r],
                                          .rank = r,
                                          .size = p,
                                          .depth = depth,
                                          .begin_stats = medium_begin_stats,
                                          .test_stats = medium_test_stats,
                                          .begin_maximum = medium_begin_maximum,
                                          .test_maximum = medium_test_maximum};
    }
}

#endif
