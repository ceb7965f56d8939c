#include "place/strategy.h"

#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"

bool plb_may_scatter(const plb_snapshot_t *in)
{
    for (int64_t i = 0; in->migratable != NULL && i < in->n_objects; i++) {
        if (!in->migratable[i]) {
            return false;
        }
    }
    return in->speed == NULL && in->memory_limit == NULL;
}

static void deal(const plb_snapshot_t *in, int64_t first, int64_t end, plb_heap_t *heaviest,
                 plb_heap_t *least, double *time, int32_t *rank)
{
    heaviest->n = least->n = 0;
    for (int64_t i = first; i < end; i++) {
        heaviest->item[heaviest->n++] = (plb_item_t){-in->load[i], (int32_t)i};
    }
    for (int32_t r = 0; r < in->n_ranks; r++) {
        least->item[least->n++] = (plb_item_t){time[r], r};
    }
    plb_heap_build(heaviest);
    plb_heap_build(least);
    while (heaviest->n > 0) {
        const int32_t i = plb_heap_pop(heaviest).id, r = plb_heap_pop(least).id;
        rank[i] = r;
        time[r] += in->load[i];
    }
}

int plb_scatter_objects(const plb_snapshot_t *in, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = in->n_ranks;
    plb_heap_t heaviest = {0}, least = {0};
    double *time = NULL;
    PLB_NEW_EACH(p, heaviest.item, least.item, time);
    for (int32_t r = 0; r < p; r++) {
        time[r] = plb_background(in, r);
    }
    for (int64_t first = 0; first < in->n_objects; first += p) {
        const int64_t end = first + p < in->n_objects ? first + p : in->n_objects;
        deal(in, first, end, &heaviest, &least, time, rank);
        PLB_TRY(plb_interrupted(8 * (int64_t)p));
    }
out:
    PLB_FREE(heaviest.item, least.item, time);
    return ret;
}
