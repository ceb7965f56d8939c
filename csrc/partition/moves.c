#include "partition/partition.h"

#include "base/mem.h"

static int32_t present(const plb_new_parts_t *in, int64_t v)
{
    return in->old == NULL || in->old[v] < 0 ? in->home : in->old[v];
}

static int find(plb_moves_t *self, const plb_new_parts_t *in, const int32_t *rank, plb_err_t *err)
{
    for (int64_t v = 0; v < in->n; v++) {
        const int32_t p = in->part[v];
        PLB_FAIL_IF(p < 0 || p >= in->n_parts, err, PLB_ERR_RANGE,
                    "part[%lld] is %d: expected 0 ... %d", (long long)v, p, in->n_parts - 1);
        self->where[v] = rank[p];
        if (p != present(in, v)) {
            self->count[p]++;
            self->n++;
        }
    }
    return PLB_OK;
}

/* Fill the lists.  next[n_parts]: index in packed[] for the next object of each part. */
static void list(plb_moves_t *self, const plb_new_parts_t *in, int64_t *next)
{
    int64_t i = 0, at = 0;
    for (int32_t p = 0; p < in->n_parts; p++) {
        next[p] = at;
        at += self->count[p];
    }
    for (int64_t v = 0; v < in->n; v++) {
        if (in->part[v] == present(in, v)) {
            continue;
        }
        self->row[i] = v;
        self->id[i] = in->ids == NULL ? in->first + v : in->ids[v];
        self->rank[i] = self->where[v];
        self->part[i++] = in->part[v];
        self->packed[next[in->part[v]]++] = (int32_t)v;
    }
}

int plb_moves_init(plb_moves_t *self, const plb_new_parts_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *rank = NULL;
    int64_t *next = NULL;
    *self = (plb_moves_t){0};
    PLB_NEW_EACH(in->n_parts, rank, next);
    PLB_NEW(self->where, in->n);
    PLB_NEW0(self->count, in->n_parts);
    for (int32_t p = 0; p < in->n_parts; p++) {
        rank[p] = plb_rank_of(p, in->n_ranks, in->n_parts);
    }
    PLB_TRY(find(self, in, rank, err));
    PLB_NEW_EACH(self->n, self->row, self->id, self->rank, self->part, self->packed);
    list(self, in, next);
out:
    PLB_FREE(rank, next);
    if (ret != PLB_OK) {
        plb_moves_free(self);
    }
    return ret;
}

void plb_moves_free(plb_moves_t *self)
{
    PLB_FREE(self->where, self->row, self->id, self->rank, self->part, self->packed, self->count);
    *self = (plb_moves_t){0};
}
