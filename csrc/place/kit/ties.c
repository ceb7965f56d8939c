#include "place/kit/ties.h"

#include "base/mem.h"

int plb_ties_init(plb_ties_t *self, int64_t n_objects, int64_t n_ties, plb_err_t *err)
{
    *self = (plb_ties_t){.free = -1};
    PLB_PASS(plb_keys_init(&self->ids, n_objects, err));
    PLB_PASS_GROW(self->object, self->room, n_objects);
    PLB_PASS_GROW(self->tie, self->ties_room, n_ties);
    return PLB_OK;
}

void plb_ties_free(plb_ties_t *self)
{
    plb_keys_free(&self->ids);
    PLB_FREE(self->object, self->tie);
    *self = (plb_ties_t){.free = -1};
}

int32_t plb_ties_find(const plb_ties_t *self, int64_t id)
{
    return plb_keys_find(&self->ids, id);
}

int plb_ties_number(plb_ties_t *self, int64_t id, int32_t rank, int32_t *number, plb_err_t *err)
{
    const int64_t before = self->ids.n;
    PLB_PASS_GROW(self->object, self->room, before + 1);
    PLB_PASS(plb_keys_add(&self->ids, id, number, err));
    if (self->ids.n > before) {
        self->object[*number] = (plb_tied_t){rank, -1};
    }
    return PLB_OK;
}

int plb_ties_add(plb_ties_t *self, int32_t object, int32_t peer, double bytes, plb_err_t *err)
{
    int32_t k = self->free;
    if (k >= 0) {
        self->free = self->tie[k].next;
    } else {
        PLB_PASS_GROW(self->tie, self->ties_room, self->n_ties + 1);
        k = (int32_t)self->n_ties++;
    }
    self->tie[k] = (plb_tie_t){peer, self->object[object].first, bytes};
    self->object[object].first = k;
    self->n_used++;
    return PLB_OK;
}

void plb_ties_clear(plb_ties_t *self, int32_t object)
{
    int32_t *first = &self->object[object].first;
    while (*first >= 0) {
        const int32_t k = *first;
        *first = self->tie[k].next;
        self->tie[k].next = self->free;
        self->free = k;
        self->n_used--;
    }
}
