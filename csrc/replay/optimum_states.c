#include "replay/optimum_states.h"

#include <string.h>

#include "base/mem.h"

uint64_t plb_hash_of_ranks(const int32_t *rank, int64_t n)
{
    uint64_t h = 0;
    for (int64_t k = 0; k < n; k++) {
        h = (h ^ (uint32_t)rank[k]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

int plb_states_reserve(states_t *self, int64_t n, plb_err_t *err)
{
    if (n > self->room) {
        const int64_t room = n > 2 * self->room ? n : 2 * self->room;
        PLB_PASS_RENEW(self->state, room);
        PLB_PASS_RENEW(self->rank, room * self->lay->n_slots);
        PLB_PASS_RENEW(self->ring, room * RING);
        PLB_PASS_RENEW(self->order, room);
        if (self->lay->trace->measured != NULL) {
            PLB_PASS_RENEW(self->estimates, room * ROWS * self->lay->n_slots);
        }
        self->room = room;
    }
    return PLB_OK;
}

void plb_states_copy(states_t *self, int64_t to, int64_t from)
{
    const size_t slots = (size_t)self->lay->n_slots;
    if (to == from) {
        return;
    }
    self->state[to] = self->state[from];
    memcpy(ranks_of(self, to), ranks_of(self, from), slots * sizeof *self->rank);
    memcpy(ring_of(self, to), ring_of(self, from), RING * sizeof *self->ring);
    if (self->estimates != NULL) {
        memcpy(estimates_of(self, to), estimates_of(self, from),
               ROWS * slots * sizeof *self->estimates);
    }
}

/* ---- states with the same placement --------------------------------------------------------- */

int64_t plb_states_look_up(const states_t *self, const int32_t *rank, uint64_t hash)
{
    const size_t size = (size_t)self->lay->n_slots * sizeof *rank;
    int64_t b = (int64_t)(hash & (uint64_t)(self->n_buckets - 1));
    while (self->bucket[b] >= 0) {
        const int32_t s = self->bucket[b];
        if (self->state[s].hash == hash && memcmp(ranks_of(self, s), rank, size) == 0) {
            break;
        }
        b = (b + 1) & (self->n_buckets - 1);
    }
    return b;
}

void plb_states_compare(states_t *self, int64_t a, int64_t b)
{
    const size_t size = (size_t)(ROWS * self->lay->n_slots) * sizeof *self->estimates;
    if (self->estimates != NULL &&
        memcmp(estimates_of(self, a), estimates_of(self, b), size) != 0) {
        self->left_out = true;
    }
}

int plb_states_list(states_t *self, int64_t more, bool change, plb_err_t *err)
{
    int64_t size = 16;
    while (size < 2 * (self->n + more)) {
        size *= 2;
    }
    if (size > self->buckets_room) {
        PLB_PASS_RENEW(self->bucket, size);
        self->buckets_room = size;
    }
    self->n_buckets = size;
    memset(self->bucket, -1, (size_t)size * sizeof *self->bucket);
    int64_t n = 0;
    for (int64_t s = 0; s < self->n; s++) {
        const int64_t b = plb_states_look_up(self, ranks_of(self, s), self->state[s].hash);
        if (change && self->bucket[b] >= 0) {
            plb_states_compare(self, self->bucket[b], s);
            if (self->state[s].time < self->state[self->bucket[b]].time) {
                plb_states_copy(self, self->bucket[b], s);
            }
            continue;
        }
        plb_states_copy(self, n, s);
        self->bucket[b] = (int32_t)n++;
    }
    self->n = n;
    return PLB_OK;
}

void plb_states_change_objects(states_t *self, int64_t section)
{
    const layout_t *lay = self->lay;
    const section_t *c = &lay->section[section];
    for (int64_t s = 0; s < self->n; s++) {
        plb_layout_enter(lay, section, ranks_of(self, s));
        self->state[s].hash = plb_hash_of_ranks(ranks_of(self, s), lay->n_slots);
        for (int64_t k = c->changes; self->estimates != NULL && k < c->end_of_changes; k++) {
            for (int row = 0; lay->change[k].fresh && row < ROWS; row++) {
                estimates_of(self, s)[row * lay->n_slots + lay->change[k].slot] = 0.0;
            }
        }
    }
}

void plb_states_free(states_t *self)
{
    PLB_FREE(self->state, self->rank, self->ring, self->estimates, self->order, self->bucket);
}
