#include "place/kit/memory.h"

#include <string.h>

#include "base/mem.h"

int plb_memory_init(plb_memory_t *self, const plb_snapshot_t *in, int64_t pairs, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_memory_t){.in = in};
    if (in->memory_limit == NULL || (in->memory == NULL && in->block == NULL)) {
        return PLB_OK;
    }
    PLB_NEW(self->left, in->n_ranks);
    memcpy(self->left, in->memory_limit, (size_t)in->n_ranks * sizeof *self->left);
    if (in->block != NULL) {
        uint64_t size = 16;
        while (size < 2 * (uint64_t)pairs) { /* at most half full */
            size *= 2;
        }
        self->mask = size - 1;
        PLB_NEW(self->pair, size);
        PLB_NEW0(self->uses, size);
        memset(self->pair, 0xff, size * sizeof *self->pair);
    }
out:
    return ret;
}

void plb_memory_free(plb_memory_t *self)
{
    PLB_FREE(self->left, self->pair, self->uses);
    *self = (plb_memory_t){0};
}

/* Where the uses of object i's block on rank r are counted, or would be. */
static uint64_t slot(const plb_memory_t *self, int64_t i, int32_t r)
{
    const int64_t key = (int64_t)r * self->in->n_blocks + self->in->block[i];
    uint64_t at = ((uint64_t)key * 0x9e3779b97f4a7c15u) >> 20 & self->mask;
    while (self->pair[at] != key && self->pair[at] >= 0) {
        at = (at + 1) & self->mask;
    }
    return at;
}

static bool shares(const plb_memory_t *self, int64_t i)
{
    return self->in->block != NULL && self->in->block[i] >= 0;
}

static int64_t own(const plb_memory_t *self, int64_t i)
{
    return self->in->memory == NULL ? 0 : self->in->memory[i];
}

int64_t plb_memory_cost(const plb_memory_t *self, int64_t i, int32_t r)
{
    const bool brings = shares(self, i) && self->uses[slot(self, i, r)] == 0;
    return own(self, i) + (brings ? self->in->block_bytes[self->in->block[i]] : 0);
}

void plb_memory_add(plb_memory_t *self, int64_t i, int32_t r)
{
    if (self->left == NULL) {
        return;
    }
    self->left[r] -= plb_memory_cost(self, i, r);
    if (shares(self, i)) {
        const uint64_t at = slot(self, i, r);
        self->pair[at] = (int64_t)r * self->in->n_blocks + self->in->block[i];
        self->uses[at]++;
    }
}

void plb_memory_remove(plb_memory_t *self, int64_t i, int32_t r)
{
    if (self->left == NULL) {
        return;
    }
    if (shares(self, i)) {
        self->uses[slot(self, i, r)]--;
    }
    self->left[r] += plb_memory_cost(self, i, r);
}
