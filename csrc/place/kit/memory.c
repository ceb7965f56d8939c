#include "place/kit/memory.h"

#include <string.h>

#include "base/mem.h"

int plb_memory_init(plb_memory_t *self, const plb_snapshot_t *in, int64_t pairs, plb_err_t *err)
{
    *self = (plb_memory_t){.in = in};
    if (in->memory_limit == NULL || (in->memory == NULL && in->block == NULL)) {
        return PLB_OK;
    }
    PLB_PASS_NEW(self->left, in->n_ranks);
    memcpy(self->left, in->memory_limit, (size_t)in->n_ranks * sizeof *self->left);
    if (in->block != NULL) {
        PLB_PASS(plb_keys_init(&self->pairs, pairs, err));
        PLB_PASS_NEW0(self->uses, self->pairs.room);
    }
    return PLB_OK;
}

void plb_memory_free(plb_memory_t *self)
{
    plb_keys_free(&self->pairs);
    PLB_FREE(self->left, self->uses);
    *self = (plb_memory_t){0};
}

static bool shares(const plb_memory_t *self, int64_t i)
{
    return self->in->block != NULL && self->in->block[i] >= 0;
}

static int64_t pair_of(const plb_memory_t *self, int64_t i, int32_t r)
{
    return (int64_t)r * self->in->n_blocks + self->in->block[i];
}

static bool brings_block(const plb_memory_t *self, int64_t i, int32_t r)
{
    const int32_t k = shares(self, i) ? plb_keys_find(&self->pairs, pair_of(self, i, r)) : -1;
    return shares(self, i) && (k < 0 || self->uses[k] == 0);
}

int64_t plb_memory_cost(const plb_memory_t *self, int64_t i, int32_t r)
{
    const int64_t own = self->in->memory == NULL ? 0 : self->in->memory[i];
    return own + (brings_block(self, i, r) ? self->in->block_bytes[self->in->block[i]] : 0);
}

void plb_memory_add(plb_memory_t *self, int64_t i, int32_t r)
{
    int32_t k;
    if (self->left == NULL) {
        return;
    }
    self->left[r] -= plb_memory_cost(self, i, r);
    if (shares(self, i) && plb_keys_add(&self->pairs, pair_of(self, i, r), &k, NULL) == PLB_OK) {
        self->uses[k]++; /* plb_keys_add cannot fail: there is space for all pairs */
    }
}

void plb_memory_remove(plb_memory_t *self, int64_t i, int32_t r)
{
    if (self->left == NULL) {
        return;
    }
    if (shares(self, i)) {
        self->uses[plb_keys_find(&self->pairs, pair_of(self, i, r))]--;
    }
    self->left[r] += plb_memory_cost(self, i, r);
}
