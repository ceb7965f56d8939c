#include "decide/decider.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

plb_placing_t plb_placing_unknown(void)
{
    plb_placing_t out;
#define X(name) out.name = NAN;
    PLB_PLACING(X)
#undef X
    return out;
}

void plb_receipt_free(plb_receipt_t *self)
{
    PLB_FREE(self->alternatives, self->speed);
    self->alternatives = NULL;
    self->speed = NULL;
}

static void count(plb_dropped_t *self, const plb_receipt_t *r)
{
    const bool balanced = r->kind >= PLB_DECISION_BALANCE;
    self->n++;
    self->balancings += balanced;
    if (balanced) {
        self->cost += r->cost;
        self->step_seconds += isnan(r->seconds_warm_up) ? r->cost : r->cost - r->seconds_warm_up;
    }
    self->migrations += r->migrations;
    self->bytes += r->bytes;
}

int64_t plb_receipts_thin(plb_receipt_t *receipts, int64_t n, int64_t keep, plb_dropped_t *dropped)
{
    const int64_t from = keep / 4, to = n - keep / 2;
    if (keep == 0 || n < keep) {
        return 0;
    }
    for (int64_t i = from; i < to; i++) {
        count(dropped, &receipts[i]);
        plb_receipt_free(&receipts[i]);
    }
    dropped->from = from;
    memmove(&receipts[from], &receipts[to], (size_t)(n - to) * sizeof *receipts);
    return to - from;
}
