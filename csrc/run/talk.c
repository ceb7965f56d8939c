#include "run/run.h"

#include <stdbool.h>
#include <string.h>

#include "base/base.h"

enum { MOST = 1 << 30 };

void plb_talk_free(plb_talk_t *self)
{
    PLB_FREE(self->edge, self->index.bucket);
    *self = (plb_talk_t){0};
}

static int64_t length_at(const plb_talk_t *self, int64_t k)
{
    const int64_t cast = self->edge[k].cast;
    int64_t n = 1;
    while (cast != 0 && k + n < self->n && self->edge[k + n].cast == cast) {
        n++;
    }
    return n;
}

/* Whether the edges from k on are those of a message from `source` to target[n]. */
static bool is_at(const plb_talk_t *self, int64_t k, int64_t source, const int64_t *target,
                  int64_t n)
{
    const plb_edge_t *edge = self->edge + k;
    if (edge->source != source || edge->target != target[0] || (edge->cast == 0) != (n == 1)) {
        return false;
    }
    if (n == 1) {
        return true;
    }
    if ((k > 0 && edge[-1].cast == edge->cast) || length_at(self, k) != n) {
        return false;
    }
    int64_t j = 1;
    while (j < n && edge[j].target == target[j]) {
        j++;
    }
    return j == n;
}

static uint64_t hash_more(uint64_t hash, int64_t target)
{
    return plb_mix64(hash ^ (uint64_t)target);
}

/* The index of a message's first edge; -1: there is no such message. */
static int32_t find(const plb_talk_t *self, int64_t source, const int64_t *target, int64_t n)
{
    uint64_t hash = plb_hash(source);
    for (int64_t j = 0; j < n; j++) {
        hash = hash_more(hash, target[j]);
    }
    int64_t b = plb_slot_first(hash, self->index.n_buckets);
    int32_t k;
    while ((k = self->index.bucket[b]) >= 0 && !is_at(self, k, source, target, n)) {
        b = plb_slot_next(b, self->index.n_buckets);
    }
    return k;
}

/* Put the messages from edge k on into the hash table. */
static void put_from(plb_talk_t *self, int64_t k)
{
    for (int64_t n; k < self->n; k += n) {
        uint64_t hash = plb_hash(self->edge[k].source);
        n = length_at(self, k);
        for (int64_t j = 0; j < n; j++) {
            hash = hash_more(hash, self->edge[k + j].target);
        }
        plb_index_put(&self->index, hash, (int32_t)k);
    }
}

static int reserve(plb_talk_t *self, int64_t more, plb_err_t *err)
{
    const int64_t n = self->n + more;
    PLB_FAIL_IF(n > MOST, err, PLB_ERR_RANGE,
                "more than %d edges in the communication graph: expected fewer", MOST);
    if (n > self->room) {
        const int64_t room = 2 * self->room + 16 > n ? 2 * self->room + 16 : n;
        PLB_PASS_RENEW(self->edge, room);
        PLB_PASS(plb_index_reset(&self->index, room, err));
        self->room = room;
        put_from(self, 0);
    }
    return PLB_OK;
}

/* Return the first edge of a message to target[n], which is appended if it is new; NULL: error. */
static plb_edge_t *edges_of(plb_talk_t *self, int64_t source, const int64_t *target, int64_t n,
                            plb_err_t *err)
{
    /* if the previous message used the last edge, a new iteration probably begins */
    int64_t k = self->next < self->n ? self->next : 0;
    if (k == self->n || !is_at(self, k, source, target, n)) {
        const int32_t found = self->n > 0 ? find(self, source, target, n) : -1;
        k = found >= 0 ? found : self->n;
        if (found < 0) {
            if (reserve(self, n, err) != PLB_OK) {
                return NULL;
            }
            const int64_t cast = n > 1 ? ++self->casts : 0;
            for (int64_t j = 0; j < n; j++) {
                self->edge[self->n++] = (plb_edge_t){source, target[j], 0, 0, cast};
            }
            put_from(self, k);
        }
    }
    self->next = k + n;
    return &self->edge[k];
}

int plb_talk_add(plb_talk_t *self, int64_t source, const int64_t *target, int64_t n, int64_t bytes,
                 plb_err_t *err)
{
    plb_edge_t *edge = edges_of(self, source, target, n, err);
    if (edge == NULL) {
        return err->code;
    }
    for (int64_t j = 0; j < n; j++) {
        edge[j].bytes += bytes;
        edge[j].messages++;
    }
    return PLB_OK;
}

void plb_talk_clear(plb_talk_t *self)
{
    self->n = self->next = self->casts = 0;
    if (self->index.n_buckets > 0) {
        memset(self->index.bucket, -1, (size_t)self->index.n_buckets * sizeof *self->index.bucket);
    }
}

/* Multicasts that lose receivers may become equal, so all messages are added again, in place. */
int plb_talk_drop(plb_talk_t *self, const plb_keys_t *gone, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = self->n;
    int64_t *target = NULL;
    PLB_NEW(target, n);
    plb_talk_clear(self);
    for (int64_t k = 0; k < n;) {
        const plb_edge_t first = self->edge[k];
        int64_t m = 0;
        do {
            target[m] = self->edge[k].target;
            m += plb_keys_find(gone, target[m]) < 0;
        } while (++k < n && first.cast != 0 && self->edge[k].cast == first.cast);
        if (m > 0 && plb_keys_find(gone, first.source) < 0) {
            /* cannot fail, because the number of edges does not grow */
            plb_edge_t *edge = edges_of(self, first.source, target, m, err);
            for (int64_t j = 0; edge != NULL && j < m; j++) {
                edge[j].bytes += first.bytes;
                edge[j].messages += first.messages;
            }
        }
    }
out:
    plb_free(target);
    return ret;
}
