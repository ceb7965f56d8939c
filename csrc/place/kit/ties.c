#include "place/kit/ties.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"

static uint64_t hash(int64_t id)
{
    uint64_t z = (uint64_t)id + 0x9e3779b97f4a7c15u; /* the finalizer of splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The bucket of an object, or the empty one where it belongs. */
static int64_t bucket_of(const plb_ties_t *self, int64_t id)
{
    int64_t b = (int64_t)(hash(id) & (uint64_t)(self->n_buckets - 1));
    while (self->bucket[b] >= 0 && self->id[self->bucket[b]] != id) {
        b = (b + 1) & (self->n_buckets - 1);
    }
    return b;
}

/* Room for `room` objects, in a table that is at most half full. */
static int make_room(plb_ties_t *self, int64_t room, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n_buckets = 16;
    int32_t *bucket = NULL;
    while (n_buckets < 2 * room) {
        n_buckets *= 2;
    }
    int64_t *id = plb_realloc(self->id, (size_t)room, sizeof *id);
    self->id = id == NULL ? self->id : id;
    int32_t *where = plb_realloc(self->where, (size_t)room, sizeof *where);
    self->where = where == NULL ? self->where : where;
    int32_t *first = plb_realloc(self->first, (size_t)room, sizeof *first);
    self->first = first == NULL ? self->first : first;
    PLB_NEW(bucket, n_buckets);
    if (id == NULL || where == NULL || first == NULL || room > INT_MAX) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld objects", (long long)room);
        goto out;
    }
    plb_free(self->bucket);
    self->bucket = bucket;
    self->n_buckets = n_buckets;
    self->room = room;
    bucket = NULL;
    memset(self->bucket, -1, (size_t)n_buckets * sizeof *self->bucket);
    for (int32_t k = 0; k < self->n; k++) {
        self->bucket[bucket_of(self, self->id[k])] = k;
    }
out:
    plb_free(bucket);
    return ret;
}

int plb_ties_init(plb_ties_t *self, int64_t n_objects, int64_t n_ties, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_ties_t){.free = -1};
    PLB_TRY(make_room(self, n_objects + 16, err));
    PLB_NEW(self->tie, n_ties);
    self->ties_room = n_ties;
out:
    return ret;
}

void plb_ties_free(plb_ties_t *self)
{
    PLB_FREE(self->id, self->where, self->first, self->tie, self->bucket);
    *self = (plb_ties_t){.free = -1};
}

int32_t plb_ties_find(const plb_ties_t *self, int64_t id)
{
    return self->bucket[bucket_of(self, id)];
}

int plb_ties_number(plb_ties_t *self, int64_t id, int32_t where, int32_t *number, plb_err_t *err)
{
    *number = plb_ties_find(self, id);
    if (*number >= 0) {
        return PLB_OK;
    }
    if (self->n == self->room) {
        const int ret = make_room(self, 2 * self->room, err);
        if (ret != PLB_OK) {
            return ret;
        }
    }
    *number = (int32_t)self->n++;
    self->id[*number] = id;
    self->where[*number] = where;
    self->first[*number] = -1;
    self->bucket[bucket_of(self, id)] = *number;
    return PLB_OK;
}

int plb_ties_add(plb_ties_t *self, int32_t object, int32_t peer, double bytes, plb_err_t *err)
{
    int32_t k = self->free;
    if (k >= 0) {
        self->free = self->tie[k].next;
    } else {
        if (self->n_ties == self->ties_room) {
            const int64_t room = 2 * self->ties_room + 16;
            plb_tie_t *tie =
                room > INT_MAX ? NULL : plb_realloc(self->tie, (size_t)room, sizeof *tie);
            if (tie == NULL) {
                return PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld ties", (long long)room);
            }
            self->tie = tie;
            self->ties_room = room;
        }
        k = (int32_t)self->n_ties++;
    }
    self->tie[k] = (plb_tie_t){peer, self->first[object], bytes};
    self->first[object] = k;
    self->n_used++;
    return PLB_OK;
}

void plb_ties_clear(plb_ties_t *self, int32_t object)
{
    while (self->first[object] >= 0) {
        const int32_t k = self->first[object];
        self->first[object] = self->tie[k].next;
        self->tie[k].next = self->free;
        self->free = k;
        self->n_used--;
    }
}
