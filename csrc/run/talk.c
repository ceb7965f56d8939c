#include "run/talk.h"

#include <string.h>

#include "base/mem.h"

enum { LEAST = 16, MOST = 1 << 30 };

void plb_talk_free(plb_talk_t *self)
{
    PLB_FREE(self->edge, self->bucket);
    *self = (plb_talk_t){0};
}

static int32_t *bucket_of(const plb_talk_t *self, int64_t source, int64_t target)
{
    const uint64_t mask = (uint64_t)(self->n_buckets - 1);
    uint64_t b = plb_mix64(plb_hash(source) ^ (uint64_t)target) & mask;
    for (;; b = (b + 1) & mask) {
        const int32_t k = self->bucket[b];
        if (k < 0 || (self->edge[k].source == source && self->edge[k].target == target)) {
            return &self->bucket[b];
        }
    }
}

static void rehash(plb_talk_t *self)
{
    memset(self->bucket, -1, (size_t)self->n_buckets * sizeof *self->bucket);
    for (int32_t k = 0; k < self->n; k++) {
        *bucket_of(self, self->edge[k].source, self->edge[k].target) = k;
    }
}

static int reserve(plb_talk_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    if (self->n >= MOST) {
        return PLB_FAIL(err, PLB_ERR_RANGE,
                        "%d pairs of objects exchange messages: expected fewer", MOST);
    }
    PLB_GROW(self->edge, self->room, self->n + 1);
    if (2 * (self->n + 1) > self->n_buckets) {
        const int64_t n_buckets = self->n_buckets > 0 ? 2 * self->n_buckets : LEAST;
        PLB_RENEW(self->bucket, n_buckets);
        self->n_buckets = n_buckets;
        rehash(self);
    }
out:
    return ret;
}

/* Return the edge of a message; a new one with 0 bytes if there is none.  NULL with an error. */
static plb_edge_t *edge_of(plb_talk_t *self, int64_t source, int64_t target, plb_err_t *err)
{
    if (self->next == self->n) {
        self->next = 0; /* a new iteration */
    }
    if (self->next < self->n && self->edge[self->next].source == source &&
        self->edge[self->next].target == target) {
        return &self->edge[self->next++];
    }
    int32_t *bucket = self->n > 0 ? bucket_of(self, source, target) : NULL;
    if (bucket == NULL || *bucket < 0) {
        if (reserve(self, err) != PLB_OK) {
            return NULL;
        }
        *bucket_of(self, source, target) = (int32_t)self->n;
        self->edge[self->n++] = (plb_edge_t){source, target, 0, 0};
        self->next = self->n;
        return &self->edge[self->n - 1];
    }
    self->next = *bucket + 1;
    return &self->edge[*bucket];
}

int plb_talk_add(plb_talk_t *self, int64_t source, int64_t target, int64_t bytes, plb_err_t *err)
{
    plb_edge_t *edge = edge_of(self, source, target, err);
    if (edge == NULL) {
        return err->code;
    }
    edge->bytes += bytes;
    edge->messages++;
    return PLB_OK;
}

void plb_talk_clear(plb_talk_t *self)
{
    self->n = self->next = 0;
    if (self->n_buckets > 0) {
        rehash(self);
    }
}

void plb_talk_drop(plb_talk_t *self, const plb_keys_t *gone)
{
    int64_t kept = 0;
    for (int64_t k = 0; k < self->n; k++) {
        const plb_edge_t edge = self->edge[k];
        if (plb_keys_find(gone, edge.source) < 0 && plb_keys_find(gone, edge.target) < 0) {
            self->edge[kept++] = edge;
        }
    }
    if (kept < self->n) {
        self->n = kept;
        self->next = 0;
        rehash(self);
    }
}
