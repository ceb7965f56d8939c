#include "whatif/simulator/slots.h"

#include <string.h>

#include "base/mem.h"

int plb_slot_open(plb_whatif_t *self, int32_t rank, int32_t slot, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    if (slot >= process->n_slots) {
        const int64_t had = process->n_slots;
        PLB_PASS_GROW(process->slot, process->n_slots, slot + 1);
        memset(process->slot + had, 0, (size_t)(process->n_slots - had) * sizeof *process->slot);
    }
    process->slot[slot] = (slot_t){.state = SLOT_OPEN, .cause_rank = -1};
    return PLB_OK;
}

void plb_slot_complete(plb_whatif_t *self, int32_t rank, int32_t slot, double when,
                       int32_t cause_rank, int64_t cause_op)
{
    process_t *process = &self->process[rank];
    process->slot[slot] = (slot_t){when, cause_op, cause_rank, SLOT_DONE};
    if (process->state == WAITING && process->waits_for == slot) {
        plb_agenda_set(self, owner_wake(self, rank), when);
    }
}

verdict_t plb_slot_wait(plb_whatif_t *self, int32_t rank, int32_t slot)
{
    process_t *process = &self->process[rank];
    if (slot >= process->n_slots || process->slot[slot].state == SLOT_FREE) {
        return NEXT;
    }
    slot_t *one = &process->slot[slot];
    if (one->state == SLOT_DONE && one->done <= self->now) {
        one->state = SLOT_FREE;
        return NEXT;
    }
    process->waits_for = slot;
    plb_agenda_set(self, owner_wake(self, rank), one->state == SLOT_DONE ? one->done : INFINITY);
    return WAIT;
}
