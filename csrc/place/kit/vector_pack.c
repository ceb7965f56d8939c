/* A placement that keeps memory limits, for objects that share blocks (plb_vectors_pack).
 *
 * A unit is all objects of a block, or an object without a block.  Units are placed as a whole, if
 * possible: a block that is split needs its bytes on two ranks. */
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/kit/vectors.h"

typedef struct units {
    plb_vectors_t *on;
    int32_t *object; /* [n_objects] the objects, one unit after the other */
    int64_t *start;  /* [n + 1] unit u has object[start[u]] ... object[start[u + 1] - 1] */
    int64_t n;
    bool stay;    /* units stay on their rank if they fit there */
    int64_t rest; /* own bytes of the unit that was looked at last, without its first object */
} units_t;

static void units_free(units_t *self)
{
    PLB_FREE(self->object, self->start);
}

/* A number for the unit of an object: its block, or a number of its own. */
static int64_t unit_of(const plb_snapshot_t *in, int32_t i)
{
    const bool shares = in->block != NULL && in->block[i] >= 0;
    return shares ? in->block[i] : in->n_blocks + i;
}

/* Make units of the objects that may migrate. */
static int units_init(units_t *self, plb_vectors_t *on, bool stay, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t m = 0;
    const int64_t n = on->in->n_objects;
    int32_t *object = NULL;
    double *key = NULL;
    plb_loads_t order = {0};
    *self = (units_t){.on = on, .stay = stay};
    PLB_NEW_EACH(n, key, object, self->object);
    PLB_NEW(self->start, n + 1);
    for (int64_t i = 0; i < n; i++) {
        if (plb_may_migrate(on->in, i)) {
            key[m] = (double)unit_of(on->in, (int32_t)i);
            object[m++] = (int32_t)i;
        }
    }
    PLB_TRY(plb_loads_sorted(&order, key, m, PLB_ASCENDING, err));
    for (int64_t j = 0; j < m; j++) {
        self->object[j] = object[order.item[j].id];
        if (j == 0 || order.item[j].key != order.item[j - 1].key) {
            self->start[self->n++] = j;
        }
    }
    self->start[self->n] = m;
out:
    plb_loads_free(&order);
    PLB_FREE(key, object);
    return ret;
}

/* Add up the bytes of the objects j ... end-1. */
static void look_at(units_t *self, int64_t j, int64_t end)
{
    const int64_t *memory = self->on->in->memory;
    self->rest = 0;
    while (memory != NULL && ++j < end) {
        self->rest += memory[self->object[j]];
    }
}

/* Return the bytes that are left on rank r with a unit that was looked at and begins with object
 * i; negative: it does not fit. */
static int64_t left_with(const units_t *self, int32_t i, int32_t r)
{
    const plb_memory_t *memory = &self->on->memory;
    return memory->left[r] - plb_memory_cost(memory, i, r) - self->rest;
}

/* Return the rank for the unit that was looked at and begins with object i: its present rank if
 * the unit may stay and fits there, else the rank with the most memory left afterwards; -1: none.
 */
static int32_t rank_for(const units_t *self, int32_t i)
{
    int32_t out = -1;
    int64_t most = -1;
    if (self->stay && left_with(self, i, self->on->in->rank[i]) >= 0) {
        return self->on->in->rank[i];
    }
    for (int32_t r = 0; r < self->on->p; r++) {
        const int64_t left = left_with(self, i, r);
        if (left > most) {
            most = left;
            out = r;
        }
    }
    return out;
}

/* Put the objects j ... end-1, as one unit, on a rank; return whether they fit on one. */
static bool put_together(units_t *self, int64_t j, int64_t end)
{
    look_at(self, j, end);
    const int32_t r = rank_for(self, self->object[j]);
    for (; r >= 0 && j < end; j++) {
        plb_vectors_put(self->on, self->object[j], r);
    }
    return r >= 0;
}

/* Put unit u on a rank; split it if it fits nowhere. */
static bool put_unit(units_t *self, int64_t u)
{
    const int64_t end = self->start[u + 1];
    bool out = put_together(self, self->start[u], end);
    if (!out && end - self->start[u] > 1) {
        out = true;
        for (int64_t j = self->start[u]; out && j < end; j++) {
            out = put_together(self, j, j + 1);
        }
    }
    return out;
}

/* Put all units on ranks, those with the most bytes first. */
static int put_all(units_t *self, bool *kept, plb_err_t *err)
{
    int ret = PLB_OK;
    double *size = NULL;
    plb_loads_t order = {0};
    PLB_NEW(size, self->n);
    for (int64_t u = 0; u < self->n; u++) {
        look_at(self, self->start[u], self->start[u + 1]);
        size[u] =
            (double)self->rest + plb_vectors_bytes(self->on->in, self->object[self->start[u]]);
    }
    PLB_TRY(plb_loads_sorted(&order, size, self->n, PLB_DESCENDING, err));
    *kept = true;
    for (int64_t u = 0; u < self->n && *kept; u++) {
        *kept = put_unit(self, order.item[u].id);
        PLB_TRY(plb_interrupted(self->on->p));
    }
out:
    plb_loads_free(&order);
    plb_free(size);
    return ret;
}

int plb_vectors_pack(plb_vectors_t *on, bool stay, bool *kept, plb_err_t *err)
{
    units_t units = {0};
    int ret = plb_vectors_begin(on, err);
    PLB_THEN(units_init(&units, on, stay, err));
    PLB_THEN(put_all(&units, kept, err));
    units_free(&units);
    /* not if fixed objects exceed a limit */
    *kept = ret == PLB_OK && *kept && plb_vectors_within_limits(on);
    return ret;
}
