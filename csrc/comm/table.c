#include "comm/route.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    LEAST_SLOTS = 8,
    AHEAD = 16, /* a slot is prefetched this many ids before it is needed */
};

/* The upper bits of an id's hash choose the rank; the lower bits choose the slot (first_slot). */
int32_t plb_home(int64_t id, int32_t n_ranks)
{
    return (int32_t)(((plb_hash(id) >> 32) * (uint64_t)n_ranks) >> 32);
}

static inline int64_t first_slot(const plb_table_t *self, int64_t id)
{
    return plb_slot_first(plb_hash(id), self->n_slots);
}

/* Return the slot of an id.  If the id is not in the table, return the free slot for it. */
static inline int64_t probe(const plb_table_t *self, int64_t id)
{
    int64_t i = first_slot(self, id);
    while (self->owner[i] != PLB_FREE && self->id[i] != id) {
        i = plb_slot_next(i, self->n_slots);
    }
    return i;
}

static inline void fetch_ahead(const plb_table_t *self, const int64_t *id, int64_t i, int64_t n)
{
    if (i + AHEAD < n) {
        const int64_t slot = first_slot(self, id[i + AHEAD]);
        __builtin_prefetch(&self->id[slot]);
        __builtin_prefetch(&self->owner[slot]);
    }
}

void plb_table_init(plb_table_t *self, int64_t data_bytes, bool has_local)
{
    *self = (plb_table_t){.data_bytes = data_bytes, .has_local = has_local};
}

void plb_table_free(plb_table_t *self)
{
    PLB_FREE(self->id, self->owner, self->local, self->row, self->data, self->spare);
    plb_table_init(self, self->data_bytes, self->has_local);
}

int64_t plb_table_bytes(const plb_table_t *self)
{
    const size_t slot = sizeof *self->id + sizeof *self->owner +
                        (self->has_local ? sizeof *self->local : 0) +
                        (self->data_bytes > 0 ? sizeof *self->row : 0);
    return self->n_slots * (int64_t)slot +
           self->room * (self->data_bytes + (int64_t)sizeof *self->spare);
}

/* ---- capacity ------------------------------------------------------------------------------- */

static void copy_entry(const plb_table_t *from, int64_t i, plb_table_t *to, int64_t j)
{
    to->id[j] = from->id[i];
    to->owner[j] = from->owner[i];
    if (to->local != NULL) {
        to->local[j] = from->local[i];
    }
    if (to->row != NULL) {
        to->row[j] = from->row[i];
    }
}

static int reserve_slots(plb_table_t *self, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    if (4 * n <= 3 * self->n_slots) {
        return PLB_OK;
    }
    const int64_t least = LEAST_SLOTS + n + n / 3, more = self->n_slots + self->n_slots / 2;
    plb_table_t grown = *self;
    grown.n_slots = least > more ? least : more;
    grown.id = grown.local = NULL;
    grown.owner = grown.row = NULL;
    PLB_NEW_EACH(grown.n_slots, grown.id, grown.owner);
    if (self->has_local) {
        PLB_NEW(grown.local, grown.n_slots);
    }
    if (self->data_bytes > 0) {
        PLB_NEW(grown.row, grown.n_slots);
    }
    memset(grown.owner, PLB_FREE, (size_t)grown.n_slots * sizeof *grown.owner);
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->owner[i] != PLB_FREE) {
            copy_entry(self, i, &grown, probe(&grown, self->id[i]));
        }
    }
    const plb_table_t old = *self;
    *self = grown;
    grown = old;
out:
    PLB_FREE(grown.id, grown.owner, grown.local, grown.row);
    return ret;
}

static int reserve_rows(plb_table_t *self, int64_t n, plb_err_t *err)
{
    if (n <= self->room || self->data_bytes == 0) {
        return PLB_OK;
    }
    int64_t room = n + n / 4;
    room = room < INT32_MAX ? room : INT32_MAX;
    char *data = plb_realloc(self->data, (size_t)room, (size_t)self->data_bytes);
    int32_t *spare = plb_realloc(self->spare, (size_t)room, sizeof *spare);
    self->data = data ? data : self->data;
    self->spare = spare ? spare : self->spare;
    PLB_FAIL_IF(data == NULL || spare == NULL, err, PLB_ERR_NOMEM,
                "out of memory: %lld rows of %lld bytes", (long long)room,
                (long long)self->data_bytes);
    self->room = (int32_t)room;
    return PLB_OK;
}

static int reserve(plb_table_t *self, int64_t n, plb_err_t *err)
{
    PLB_FAIL_IF(n > INT32_MAX, err, PLB_ERR_RANGE, "%lld ids on a rank: expected below 2^31",
                (long long)n);
    const int ret = reserve_slots(self, n, err);
    return ret == PLB_OK ? reserve_rows(self, n, err) : ret;
}

/* ---- entries -------------------------------------------------------------------------------- */

static int64_t steps(const plb_table_t *self, int64_t i, int64_t j)
{
    return j >= i ? j - i : j - i + self->n_slots;
}

/* Free slot i, and move the entries that follow it back where possible, up to the next free slot
 * (Knuth, volume 3, algorithm 6.4R). */
static void take_out(plb_table_t *self, int64_t i)
{
    if (self->row != NULL) {
        self->spare[self->n_spare++] = self->row[i];
    }
    self->n--;
    for (int64_t j = plb_slot_next(i, self->n_slots); self->owner[j] != PLB_FREE;
         j = plb_slot_next(j, self->n_slots)) {
        const int64_t first = first_slot(self, self->id[j]);
        if (steps(self, first, j) >= steps(self, i, j)) {
            copy_entry(self, j, self, i);
            i = j;
        }
    }
    self->owner[i] = PLB_FREE;
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
    PLB_NEW0(seen, self->n_slots / 64 + 1);
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
        if (self->owner[at] == PLB_FREE) {
            self->id[at] = id[i];
            self->owner[at] = PLB_STAGED;
            if (self->local != NULL) {
                self->local[at] = -1;
            }
            if (self->row != NULL) {
                const int32_t row =
                    self->n_spare > 0 ? self->spare[--self->n_spare] : self->n_rows++;
                memset(self->data + row * self->data_bytes, 0, (size_t)self->data_bytes);
                self->row[at] = row;
            }
            self->n++;
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
            __builtin_prefetch(&self->owner[slot[i + AHEAD]], 1);
        }
        self->owner[slot[i]] = owner[i];
        if (self->local != NULL) {
            self->local[slot[i]] = local[i];
        }
        if (data != NULL && self->row != NULL) {
            memcpy(self->data + self->row[slot[i]] * self->data_bytes, data + i * self->data_bytes,
                   (size_t)self->data_bytes);
        }
    }
}

void plb_table_unstage(plb_table_t *self, const int64_t *id, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = probe(self, id[i]);
        if (self->owner[at] == PLB_STAGED) {
            take_out(self, at);
        }
    }
}

/* Return the slot of id[i], or -1; prefetch a slot that is needed soon. */
static int64_t slot_of(const plb_table_t *self, const int64_t *id, int64_t i, int64_t n)
{
    if (self->n == 0) {
        return -1;
    }
    fetch_ahead(self, id, i, n);
    const int64_t at = probe(self, id[i]);
    return self->owner[at] == PLB_FREE ? -1 : at;
}

int64_t plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *owner,
                       int64_t *local, char *data, int64_t *missing)
{
    const size_t bytes = (size_t)self->data_bytes;
    int64_t n_missing = 0;
    *missing = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = slot_of(self, id, i, n);
        owner[i] = at < 0 ? -1 : self->owner[at];
        if (local != NULL) {
            local[i] = at < 0 ? -1 : self->local[at];
        }
        if (at < 0) {
            *missing = n_missing++ == 0 ? i : *missing;
        }
        if (data != NULL && at < 0) {
            memset(data + i * self->data_bytes, 0, bytes);
        } else if (data != NULL && self->row != NULL) {
            memcpy(data + i * self->data_bytes, self->data + self->row[at] * self->data_bytes,
                   bytes);
        }
    }
    return n_missing;
}

int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n)
{
    const int64_t before = self->n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = slot_of(self, id, i, n);
        if (at >= 0) {
            take_out(self, at);
        }
    }
    return before - self->n;
}

void plb_table_ids(const plb_table_t *self, int64_t *id)
{
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->owner[i] != PLB_FREE) {
            *id++ = self->id[i];
        }
    }
}
