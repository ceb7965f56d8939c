#include "whatif/simulator/internal.h"

#include <string.h>

#include "base/base.h"
#include "whatif/whatif.h"

/* ---- trees ------------------------------------------------------------------------------- */

enum {
    /* from this many bytes on, Alltoall sends to each rank directly, as in Open MPI and MPICH: a
     * property of these libraries, not tuned */
    PAIRWISE_BYTES = 256,
};

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Get step 0, 1, ... of a binomial tree, in which data go from the root (v = 0) or, if `up`, to
 * the root.  v: the rank, counted from the root on.  Its parent is v without its lowest set bit;
 * the subtree of child v + bit has up to `bit` ranks.  Down, the child with the largest subtree
 * comes first; up, all steps come in the opposite order. */
static bool tree_hop(int32_t v, int32_t size, int64_t bytes, bool personal, bool up, int32_t step,
                     plb_hop_t *out)
{
    int32_t low = 1, children = 0; /* distance to the parent; number of children */
    for (; low < size && (v & low) == 0; low <<= 1) {
        children += v + low < size;
    }
    const int32_t parents = v != 0;
    if (step >= parents + children) {
        return false;
    }
    step = up ? parents + children - 1 - step : step;
    const int32_t bit = step < parents ? low : 1 << (children - 1 - (step - parents));
    const int32_t peer = step < parents ? v - bit : v + bit;
    const int32_t below =
        v > peer ? v : peer; /* the root of the subtree whose data go up or down */
    *out = up == (step < parents)
               ? (plb_hop_t){peer, -1, personal ? bytes * min32(bit, size - below) : bytes}
               : (plb_hop_t){-1, peer, 0};
    return true;
}

/* A step on a ring: send to rank me + away, receive from rank me - away. */
static plb_hop_t around(int32_t me, int32_t size, int32_t away, int64_t bytes)
{
    return (plb_hop_t){(int32_t)(((int64_t)me + away) % size), (me - away + size) % size, bytes};
}

/* Step k of recursive doubling: send to the rank 2^k above, and receive from the rank 2^k below.
 * After this step, each rank has the data of 2^(k+1) ranks. */
static bool doubling(plb_collective_t what, int32_t me, int32_t size, int64_t bytes, int32_t step,
                     plb_hop_t *out)
{
    if (step >= 31 || (1 << step) >= size) {
        return false;
    }
    const int32_t bit = 1 << step;
    *out = around(me, size, bit, bytes);
    if (what == PLB_BARRIER) {
        out->bytes = 0;
    } else if (what == PLB_ALLGATHER) {
        out->bytes = bytes * min32(bit, size - bit);
    } else if (what == PLB_ALLTOALL) {
        out->bytes = bytes * ((size + 1) / 2);
    }
    /* in a scan, the ring is open: the first ranks receive nothing, the last ones send nothing */
    if (what == PLB_SCAN || what == PLB_EXSCAN) {
        out->to = me < size - bit ? out->to : -1;
        out->from = me >= bit ? out->from : -1;
    }
    return true;
}

/* Get step 0, 1, ... of rank `me` of `size`; false: there are no more steps.
 *   - Collectives with a root: binomial trees.
 *   - Alltoall with long data: each rank sends directly to one rank after the other.
 *   - All others: recursive doubling, as Bruck et al. do it for any number of ranks. */
static bool tree_step(plb_collective_t what, int32_t me, int32_t size, int32_t root, int64_t bytes,
                      int32_t step, plb_hop_t *out)
{
    const bool up = what == PLB_GATHER || what == PLB_REDUCE;
    if (up || what == PLB_BCAST || what == PLB_SCATTER) {
        const bool personal = what == PLB_GATHER || what == PLB_SCATTER;
        if (!tree_hop((me - root + size) % size, size, bytes, personal, up, step, out)) {
            return false;
        }
        out->to = out->to < 0 ? -1 : (int32_t)(((int64_t)out->to + root) % size);
        out->from = out->from < 0 ? -1 : (int32_t)(((int64_t)out->from + root) % size);
        return true;
    }
    if (what == PLB_ALLTOALL && bytes >= PAIRWISE_BYTES) {
        *out = around(me, size, step < size - 1 ? step + 1 : 0, bytes);
        return step < size - 1;
    }
    return doubling(what, me, size, bytes, step, out);
}

/* Count steps and bytes on the longest path through the tree, for nonblocking collectives. */
static void tree_depth(plb_collective_t what, int32_t size, int64_t bytes, int32_t *steps,
                       int64_t *total)
{
    plb_hop_t one;
    *total = 0;
    /* rank 0, as the root, has as many steps as the longest path; without a root, all ranks have
     * the same number of steps */
    for (*steps = 0; tree_step(what, 0, size, 0, bytes, *steps, &one); ++*steps) {
        *total += what == PLB_GATHER ? 0 : one.bytes;
    }
    if (what == PLB_GATHER || what == PLB_REDUCE) { /* messages go to the root */
        *total = what == PLB_GATHER ? bytes * (size - 1) : bytes * *steps;
    }
}

bool plb_collective_next(const plb_whatif_t *self, int32_t rank, plb_hop_t *out)
{
    const process_t *process = &self->process[rank];
    const plb_op_t *op = &process->op[process->at];
    const int64_t size = self->comms->start[op->comm + 1] - self->comms->start[op->comm];
    return tree_step((plb_collective_t)op->what, op->tag, (int32_t)size, op->peer, op->bytes,
                     process->exchange, out);
}

int plb_collective_run(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    const plb_op_t *op = &process->op[process->at];
    const int32_t *member = self->comms->member + self->comms->start[op->comm];
    const uint32_t context = context_of(op) + 1;
    plb_hop_t step;
    process->exchange = process->exchange < 0 ? 0 : process->exchange;
    while (plb_collective_next(self, rank, &step)) {
        process->exchange++;
        if (step.to >= 0) {
            const message_t message = {
                .src = rank, .slot = -1, .bytes = step.bytes, .op = process->at};
            PLB_PASS(plb_message_send(self, member[step.to], context, message, err));
        }
        if (step.from >= 0) {
            PLB_PASS(plb_slot_open(self, rank, OWN_SLOT, err));
            PLB_PASS(
                plb_message_receive(self, rank, context, member[step.from], 0, OWN_SLOT, err));
            if (plb_slot_wait(self, rank, OWN_SLOT) == WAIT) {
                *verdict = WAIT;
                return PLB_OK;
            }
        }
    }
    process->exchange = -1;
    *verdict = NEXT;
    return PLB_OK;
}

static double slowest(const double *matrix, int32_t n_nodes)
{
    double out = 0.0;
    for (int64_t i = 0; i < (int64_t)n_nodes * n_nodes; i++) {
        out = matrix[i] > out ? matrix[i] : out;
    }
    return out;
}

/* The nonblocking collective of this number in its communicator; the first rank to enter makes it.
 */
static int icoll_of(icolls_t *self, int64_t number, int32_t size, icoll_t **out, plb_err_t *err)
{
    if (number == self->n) {
        PLB_PASS_GROW(self->at, self->room, self->n + 1);
        icoll_t *fresh = &self->at[self->n];
        *fresh = (icoll_t){.latest_rank = -1, .root_rank = -1};
        PLB_PASS_NEW(fresh->slot, size);
        memset(fresh->slot, -1, (size_t)size * sizeof *fresh->slot);
        self->n++;
    }
    *out = &self->at[number];
    return PLB_OK;
}

int plb_collective_enter(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err)
{
    const int64_t first = self->comms->start[op->comm];
    const int32_t size = (int32_t)(self->comms->start[op->comm + 1] - first);
    const int64_t number = self->icolls_entered[first + op->tag]++;
    const int32_t slot = op->request + 1;
    icoll_t *one = NULL;
    PLB_PASS(plb_slot_open(self, rank, slot, err));
    PLB_PASS(icoll_of(&self->icolls[op->comm], number, size, &one, err));
    one->entered++;
    one->latest = self->now;
    one->latest_rank = rank;
    one->latest_op = self->process[rank].at;
    if (op->tag == op->peer) {
        one->root_at = self->now;
        one->root_rank = rank;
        one->root_op = one->latest_op;
    }
    if (plb_awaits_of(op, op->tag == op->peer) == PLB_AWAITS_NOBODY) {
        plb_slot_complete(self, rank, slot, self->now, -1, 0);
    } else {
        one->slot[op->tag] = slot;
    }
    if (one->entered == size || one->root_rank >= 0) {
        /* If the root has entered, complete the members that wait only for the root.  If all
         * members have entered, complete all other members, too.  `tree`: seconds that a tree of
         * messages takes over the slowest link. */
        const plb_target_t *t = self->target;
        int32_t steps;
        int64_t bytes;
        tree_depth((plb_collective_t)op->what, size, op->bytes, &steps, &bytes);
        const double tree =
            slowest(t->alpha, t->n_nodes) * steps + slowest(t->beta, t->n_nodes) * (double)bytes;
        const int32_t *member = self->comms->member + self->comms->start[op->comm];
        for (int32_t i = 0; i < size; i++) {
            if (one->slot[i] < 0) {
                continue;
            }
            const plb_awaits_t awaits = plb_awaits_of(op, i == op->peer);
            const bool root = awaits == PLB_AWAITS_ROOT && one->root_rank >= 0;
            if (!root && one->entered < size) {
                continue;
            }
            const double at = (root ? one->root_at : one->latest) + tree;
            plb_slot_complete(self, member[i], one->slot[i], at > self->now ? at : self->now,
                              root ? one->root_rank : one->latest_rank,
                              root ? one->root_op : one->latest_op);
            one->slot[i] = -1;
        }
    }
    if (one->entered == size) {
        plb_free(one->slot);
        one->slot = NULL;
    }
    return PLB_OK;
}
