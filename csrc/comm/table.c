#include "comm/table.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    LEAST_SLOTS = 64,
    AHEAD = 16, /* slots are prefetched for this many ids ahead */
};

/* The upper bits of an id's hash choose the rank, the lower bits the slot. */
int32_t plb_home(int64_t id, int32_t n_ranks)
{
    return (int32_t)(((plb_hash(id) >> 32) * (uint64_t)n_ranks) >> 32);
}

static inline int64_t first_slot(const plb_table_t *self, int64_t id)
{
    return (int64_t)(plb_hash(id) & (uint64_t)(self->n_slots - 1));
}

/* The slot of an id, or the free one where it would be. */
static inline int64_t probe(const plb_table_t *self, int64_t id)
{
    int64_t i = first_slot(self, id);
    while (self->slot[i].owner != PLB_FREE && self->slot[i].id != id) {
        i = (i + 1) & (self->n_slots - 1);
    }
    return i;
}

static inline void fetch_ahead(const plb_table_t *self, const int64_t *id, int64_t i, int64_t n)
{
    if (i + AHEAD < n) {
        __builtin_prefetch(&self->slot[first_slot(self, id[i + AHEAD])]);
    }
}

void plb_table_init(plb_table_t *self, int64_t data_bytes)
{
    *self = (plb_table_t){.data_bytes = data_bytes};
}

void plb_table_free(plb_table_t *self)
{
    PLB_FREE(self->slot, self->data, self->spare);
    plb_table_init(self, self->data_bytes);
}

/* ---- room ----------------------------------------------------------------------------------- */

/* Slots for n entries, at most two thirds of them taken. */
static int reserve_slots(plb_table_t *self, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n_slots = self->n_slots > 0 ? self->n_slots : LEAST_SLOTS;
    while (3 * n > 2 * n_slots) {
        n_slots *= 2;
    }
    if (n_slots == self->n_slots) {
        return PLB_OK;
    }
    plb_table_t grown = *self;
    grown.n_slots = n_slots;
    PLB_NEW(grown.slot, n_slots);
    for (int64_t i = 0; i < n_slots; i++) {
        grown.slot[i] = (plb_known_t){0, 0, PLB_FREE, -1};
    }
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->slot[i].owner != PLB_FREE) {
            grown.slot[probe(&grown, self->slot[i].id)] = self->slot[i];
        }
    }
    plb_free(self->slot);
    *self = grown;
out:
    return ret;
}

/* Rows of user data for n entries. */
static int reserve_rows(plb_table_t *self, int64_t n, plb_err_t *err)
{
    if (n <= self->room) {
        return PLB_OK;
    }
    int64_t room = n + n / 4;
    room = room < INT32_MAX ? room : INT32_MAX;
    char *data = plb_realloc(self->data, (size_t)room, (size_t)self->data_bytes);
    int32_t *spare = plb_realloc(self->spare, (size_t)room, sizeof *spare);
    self->data = data ? data : self->data;
    self->spare = spare ? spare : self->spare;
    if (data == NULL || spare == NULL) {
        return PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld rows of %lld bytes",
                        (long long)room, (long long)self->data_bytes);
    }
    self->room = (int32_t)room;
    return PLB_OK;
}

static int reserve(plb_table_t *self, int64_t n, plb_err_t *err)
{
    if (n > INT32_MAX) {
        return PLB_FAIL(err, PLB_ERR_RANGE, "%lld ids on a rank: expected below 2^31",
                        (long long)n);
    }
    const int ret = reserve_slots(self, n, err);
    return ret == PLB_OK ? reserve_rows(self, n, err) : ret;
}

/* ---- entries -------------------------------------------------------------------------------- */

static void insert(plb_table_t *self, int64_t i, int64_t id)
{
    const int32_t row = self->n_spare > 0 ? self->spare[--self->n_spare] : self->n_rows++;
    if (self->data_bytes > 0) {
        memset(self->data + row * self->data_bytes, 0, (size_t)self->data_bytes);
    }
    self->slot[i] = (plb_known_t){id, -1, PLB_STAGED, row};
    self->n++;
}

/* Move the following entries back where possible, up to the next free slot (Knuth, volume 3,
 * algorithm 6.4R). */
static void take_out(plb_table_t *self, int64_t i)
{
    const int64_t mask = self->n_slots - 1;
    self->spare[self->n_spare++] = self->slot[i].row;
    self->n--;
    for (int64_t j = (i + 1) & mask; self->slot[j].owner != PLB_FREE; j = (j + 1) & mask) {
        const int64_t first = first_slot(self, self->slot[j].id);
        if (((j - first) & mask) >= ((j - i) & mask)) {
            self->slot[i] = self->slot[j];
            i = j;
        }
    }
    self->slot[i].owner = PLB_FREE;
}

static int64_t first_place(const int64_t *id, int64_t what)
{
    int64_t i = 0;
    while (id[i] != what) {
        i++;
    }
    return i;
}

int plb_table_stage(plb_table_t *self, const int64_t *id, int64_t n, int64_t *slot, int64_t *twice,
                    plb_err_t *err)
{
    uint64_t *seen = NULL;
    int ret = reserve(self, self->n + n, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW0(seen, self->n_slots / 64);
    for (int64_t i = 0; i < n; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = slot[i] = probe(self, id[i]);
        const uint64_t bit = (uint64_t)1 << (at % 64);
        if (seen[at / 64] & bit) {
            twice[0] = first_place(id, id[i]);
            twice[1] = i;
            plb_table_unstage(self, id, i);
            ret = PLB_FAIL(err, PLB_ERR_KEY, "id %lld is given twice", (long long)id[i]);
            goto out;
        }
        seen[at / 64] |= bit;
        if (self->slot[at].owner == PLB_FREE) {
            insert(self, at, id[i]);
        }
    }
out:
    plb_free(seen);
    return ret;
}

void plb_table_commit(plb_table_t *self, const int64_t *slot, int64_t n, const int32_t *owner,
                      const int64_t *local, const char *data)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            __builtin_prefetch(&self->slot[slot[i + AHEAD]], 1);
        }
        plb_known_t *e = &self->slot[slot[i]];
        e->owner = owner[i];
        e->local = local[i];
        if (data != NULL) {
            memcpy(self->data + e->row * self->data_bytes, data + i * self->data_bytes,
                   (size_t)self->data_bytes);
        }
    }
}

void plb_table_unstage(plb_table_t *self, const int64_t *id, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = probe(self, id[i]);
        if (self->slot[at].owner == PLB_STAGED) {
            take_out(self, at);
        }
    }
}

int64_t plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *owner,
                       int64_t *local, char *data, int64_t *missing)
{
    static const plb_known_t nobody = {0, -1, PLB_FREE, -1};
    int64_t n_missing = 0;
    *missing = -1;
    for (int64_t i = 0; i < n; i++) {
        const plb_known_t *e = &nobody;
        if (self->n > 0) {
            fetch_ahead(self, id, i, n);
            e = &self->slot[probe(self, id[i])];
        }
        owner[i] = e->owner;
        if (local != NULL) {
            local[i] = e->owner == PLB_FREE ? -1 : e->local;
        }
        if (e->owner == PLB_FREE) {
            *missing = n_missing++ == 0 ? i : *missing;
        }
        if (data != NULL && e->owner == PLB_FREE) {
            memset(data + i * self->data_bytes, 0, (size_t)self->data_bytes);
        } else if (data != NULL) {
            memcpy(data + i * self->data_bytes, self->data + e->row * self->data_bytes,
                   (size_t)self->data_bytes);
        }
    }
    return n_missing;
}

int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n)
{
    const int64_t before = self->n;
    for (int64_t i = 0; i < n && self->n > 0; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = probe(self, id[i]);
        if (self->slot[at].owner != PLB_FREE) {
            take_out(self, at);
        }
    }
    return before - self->n;
}

void plb_table_ids(const plb_table_t *self, int64_t *id)
{
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->slot[i].owner != PLB_FREE) {
            *id++ = self->slot[i].id;
        }
    }
}
