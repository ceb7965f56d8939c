#include "whatif/simulator/internal.h"

#include "base/mem.h"

enum { FAR = 4096 }; /* largest number of operations that are examined in advance */

bool plb_order_is_open(const plb_op_t *op)
{
    return (op->kind == PLB_OP_RECV || op->kind == PLB_OP_PROBE) &&
           (op->flags & PLB_OP_ANY_SOURCE) && op->peer >= 0;
}

static bool is_fixed(const plb_op_t *op)
{
    return op->kind == PLB_OP_COLL || op->kind == PLB_OP_ICOLL || op->kind == PLB_OP_END;
}

/* Return the end of the block that begins at operation `at`: the next open operation.  -1: the
 * block cannot be moved; -2: the end is not among the operations that were passed so far. */
static int64_t block_end(const process_t *process, int64_t at)
{
    for (int64_t i = at + 1; i < at + FAR; i++) {
        if (i >= process->n) {
            return process->closed ? -1 : -2;
        }
        if (plb_order_is_open(&process->op[i])) {
            return i;
        }
        if (is_fixed(&process->op[i])) {
            return -1;
        }
    }
    return -1;
}

static bool is_for(const plb_op_t *open, const plb_op_t *standing, const plb_whatif_t *self,
                   const message_t *m)
{
    return open->kind == standing->kind && open->peer == m->src &&
           self->channel[m->channel].context == (uint32_t)open->comm * 2u &&
           ((open->flags & PLB_OP_ANY_TAG) || open->tag == m->tag);
}

static int skip(process_t *process, int64_t at, plb_err_t *err)
{
    PLB_PASS_GROW(process->skipped, process->room_skipped, process->n_skipped + 1);
    process->skipped[process->n_skipped++] = at;
    return PLB_OK;
}

static bool take_skipped(plb_whatif_t *self, process_t *process, const plb_op_t *standing,
                         const message_t *m)
{
    for (int32_t i = 0; i < process->n_skipped; i++) {
        const int64_t at = process->skipped[i];
        if (is_for(&process->op[at], standing, self, m)) {
            process->n_skipped--;
            for (; i < process->n_skipped; i++) {
                process->skipped[i] = process->skipped[i + 1];
            }
            process->at = at;
            return true;
        }
    }
    return false;
}

/* Search from `frontier` on for a block for message `m`; skip the blocks before this block. */
static int take_ahead(plb_whatif_t *self, process_t *process, const plb_op_t *standing,
                      const message_t *m, plb_order_t *out, plb_err_t *err)
{
    const int64_t from = process->frontier;
    int64_t i = from, end;
    *out = CHOICE_NONE;
    for (;;) {
        end = block_end(process, i);
        if (end == -2) {
            *out = CHOICE_UNKNOWN;
            return PLB_OK;
        }
        /* a block that cannot be moved may still be the next one in the recorded order */
        const bool may = end >= 0 || (i == from && process->n_skipped == 0);
        if (may && is_for(&process->op[i], standing, self, m)) {
            break;
        }
        if (end < 0 || end - from > FAR) {
            return PLB_OK;
        }
        i = end;
    }
    int ret = PLB_OK;
    for (int64_t k = from; ret == PLB_OK && k < i; k++) {
        if (plb_order_is_open(&process->op[k])) {
            ret = skip(process, k, err);
        }
    }
    process->frontier = end;
    process->at = i;
    *out = CHOICE_MADE;
    return ret;
}

int plb_order_choose(plb_whatif_t *self, int32_t rank, plb_order_t *out, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    const plb_op_t standing = process->op[process->at];
    if (process->frontier < 0) {
        process->frontier = process->at;
    }
    *out = CHOICE_NONE;
    int ret = PLB_OK;
    for (int32_t m = process->there; m >= 0 && *out == CHOICE_NONE; m = self->message[m].next) {
        if (take_skipped(self, process, &standing, &self->message[m])) {
            *out = CHOICE_MADE;
        } else if ((ret = take_ahead(self, process, &standing, &self->message[m], out, err)) !=
                   PLB_OK) {
            return ret;
        }
    }
    return ret;
}
