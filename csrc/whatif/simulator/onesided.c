#include "whatif/simulator/onesided.h"

#include "base/mem.h"
#include "whatif/simulator/target.h"

static int find_lock(plb_whatif_t *self, const plb_op_t *op, int32_t *out, plb_err_t *err)
{
    for (*out = 0; *out < self->n_locks; ++*out) {
        if (self->lock[*out].window == op->tag && self->lock[*out].target == op->peer) {
            return PLB_OK;
        }
    }
    PLB_PASS_GROW(self->lock, self->room_locks, self->n_locks + 1);
    self->lock[self->n_locks++] =
        (lock_t){.window = op->tag, .target = op->peer, .first = -1, .last = -1};
    return PLB_OK;
}

static bool lock_take(lock_t *lock, bool shared)
{
    if (lock->shared < 0 || (!shared && lock->shared > 0)) {
        return false;
    }
    lock->shared = shared ? lock->shared + 1 : -1;
    return true;
}

int plb_lock_begin(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err)
{
    int32_t which;
    PLB_PASS(find_lock(self, op, &which, err));
    lock_t *lock = &self->lock[which];
    double wake = INFINITY;
    if (lock->first < 0 && lock_take(lock, op->flags & PLB_OP_SHARED)) {
        wake = (lock->free_at > self->now ? lock->free_at : self->now) +
               plb_link_round_trip(self, rank, op);
    } else {
        *(lock->last >= 0 ? &self->process[lock->last].next_lock : &lock->first) = rank;
        lock->last = rank;
        self->process[rank].next_lock = -1;
    }
    plb_agenda_set(&self->agenda, owner_wake(self, rank), wake);
    return PLB_OK;
}

int plb_lock_end(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err)
{
    int32_t which;
    PLB_PASS(find_lock(self, op, &which, err));
    lock_t *lock = &self->lock[which];
    const double free_at = self->now + plb_link_round_trip(self, rank, op);
    lock->free_at = free_at > lock->free_at ? free_at : lock->free_at;
    lock->shared = lock->shared > 0 ? lock->shared - 1 : 0;
    plb_agenda_set(&self->agenda, owner_wake(self, rank), free_at);
    while (lock->first >= 0) {
        const int32_t one = lock->first;
        const process_t *waits = &self->process[one];
        const plb_op_t *its = &waits->op[waits->at];
        if (!lock_take(lock, its->flags & PLB_OP_SHARED)) {
            break;
        }
        plb_agenda_set(&self->agenda, owner_wake(self, one),
                       lock->free_at + plb_link_round_trip(self, one, its));
        lock->first = waits->next_lock;
        lock->last = lock->first >= 0 ? lock->last : -1;
    }
    return PLB_OK;
}
