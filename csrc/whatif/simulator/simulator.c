#include "whatif/simulator/internal.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "whatif/whatif.h"

/* ---- processor ------------------------------------------------------------------------------ */

/* --- available time --- */

/* Seconds in which the processor was available, from the start of its first period to `time`. */
static double there_until(const processor_t *p, double time)
{
    const double since = time - p->phase, whole = floor(since / p->period);
    const double part = since - whole * p->period;
    return whole * p->on + (part < p->on ? part : p->on);
}

static double done_after(const processor_t *p, double from, double work)
{
    const double seconds = work > 0.0 ? work / p->speed : 0.0;
    if (p->period <= 0.0) {
        return from + seconds;
    }
    const double total = there_until(p, from) + seconds;
    /* if the work exactly fills a number of periods, it ends in the last one of them */
    const double whole = ceil(total / p->on - 1e-9) - 1.0;
    const double to = p->phase + whole * p->period + (total - whole * p->on);
    return to > from ? to : from;
}

/* --- equal shares --- */

/* Bring v, the work that each computing process has got, up to the present time. */
static void settle(const plb_whatif_t *self, processor_t *p)
{
    const double seconds = p->period > 0.0 ? there_until(p, self->now) - there_until(p, p->last)
                                           : self->now - p->last;
    p->v = p->active.n > 0 ? p->v + seconds * p->speed / p->active.n : 0.0;
    p->last = self->now;
}

static void rekey(plb_whatif_t *self, int32_t number)
{
    const processor_t *p = &self->processor[number];
    const double done = p->active.n > 0
                            ? done_after(p, p->last, (p->active.item[0].key - p->v) * p->active.n)
                            : INFINITY;
    plb_agenda_set(self, owner_processor(self, number), done);
}

/* Let `rank` stop computing: it waits, pauses or has ended. */
static void processor_leave(plb_whatif_t *self, int32_t rank)
{
    process_t *one = &self->process[rank];
    processor_t *p = &self->processor[one->processor];
    settle(self, p);
    if (one->has_run) {
        plb_heap_pop(&p->active);
    }
    one->has_run = false;
    rekey(self, one->processor);
}

static const double MOST = 1e30;  /* the product of two such numbers does not overflow */
static const double LEAST = 1e-9; /* smallest share; smallest seconds of a period */

static int check(int32_t n_ranks, const plb_comms_t *comms, const plb_target_t *t, plb_err_t *err)
{
    /* the keys of channels must fit into 64 bits */
    PLB_FAIL_IF(comms->n > INT64_MAX / 2 / n_ranks / n_ranks, err, PLB_ERR_VALUE,
                "%d communicators of %d ranks: expected fewer", comms->n, n_ranks);
    PLB_PASS(plb_comms_check(comms, n_ranks, err));
    for (int32_t p = 0; p < t->n_processors; p++) {
        PLB_FAIL_IF(!(t->speed[p] >= 1.0 / MOST && t->speed[p] <= MOST), err, PLB_ERR_VALUE,
                    "speed of processor %d is %g: expected 1e-30 ... 1e30", p, t->speed[p]);
        PLB_FAIL_IF(t->share != NULL && !(t->share[p] >= LEAST && t->share[p] <= 1.0), err,
                    PLB_ERR_VALUE, "share of processor %d is %g: expected 1e-9 ... 1", p,
                    t->share[p]);
        PLB_FAIL_IF(t->node[p] < 0 || t->node[p] >= t->n_nodes, err, PLB_ERR_RANGE,
                    "node of processor %d is %d: expected 0 ... %d", p, t->node[p],
                    t->n_nodes - 1);
    }
    for (int32_t r = 0; r < n_ranks; r++) {
        PLB_FAIL_IF(t->place[r] < 0 || t->place[r] >= t->n_processors, err, PLB_ERR_RANGE,
                    "placement of rank %d is processor %d: expected 0 ... %d", r, t->place[r],
                    t->n_processors - 1);
    }
    PLB_PASS(plb_check(
        PLB_AMOUNT,
        PLB_FIGURES(PLB_FIGURE(t, period), PLB_FIGURE(t, overhead), PLB_FIGURE(t, eager)), err));
    PLB_FAIL_IF(t->period > 0.0 && t->period < LEAST, err, PLB_ERR_VALUE,
                "period is %g: expected 0, or 1e-9 s or more", t->period);
    for (int64_t i = 0; i < (int64_t)t->n_nodes * t->n_nodes; i++) {
        PLB_FAIL_IF(!(t->alpha[i] >= 0.0 && t->alpha[i] <= MOST && t->beta[i] >= 0.0 &&
                      t->beta[i] <= MOST),
                    err, PLB_ERR_VALUE,
                    "network from node %d to %d is alpha %g s, beta %g s/byte: expected "
                    "numbers from 0 to 1e30",
                    (int)(i / t->n_nodes), (int)(i % t->n_nodes), t->alpha[i], t->beta[i]);
    }
    return PLB_OK;
}

/* --- begin and end --- */

static int make_processors(plb_whatif_t *self, plb_err_t *err)
{
    const plb_target_t *t = self->target;
    PLB_PASS_NEW0(self->processor, t->n_processors);
    PLB_PASS_NEW0(self->heap_room, self->n_ranks);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        self->processor[t->place[r]].active.n++; /* at first, n counts the processor's processes */
    }
    plb_item_t *room = self->heap_room;
    for (int32_t p = 0; p < t->n_processors; p++) {
        processor_t *one = &self->processor[p];
        const int32_t residents = one->active.n;
        const double share = t->share != NULL ? t->share[p] : 1.0;
        *one = (processor_t){.speed = t->speed[p], .active = {.item = room}};
        if (t->period <= 0.0) {
            one->speed *= share;
        } else if (share < 1.0) {
            /* the periods are shifted by multiples of the golden ratio, so that those of different
             * processors do not begin together */
            one->period = t->period;
            one->on = share * t->period;
            one->phase = t->period * (fmod(0.6180339887498949 * p, 1.0) - 1.0);
        }
        room += residents;
    }
    return PLB_OK;
}

static int init(plb_whatif_t *self, const plb_streams_t *s, plb_op_time_t *const *step,
                plb_err_t *err)
{
    PLB_PASS(make_processors(self, err));
    PLB_PASS_NEW0(self->process, self->n_ranks);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        self->process[r] = (process_t){.op = s->op[r],
                                       .n = s->n[r],
                                       .step = step != NULL ? step[r] : NULL,
                                       .processor = self->target->place[r],
                                       .waits_for = -1,
                                       .exchange = -1,
                                       .flying = -1,
                                       .flying_last = -1,
                                       .rendezvous = -1};
    }
    const int64_t owners = 2 * (int64_t)self->n_ranks + self->target->n_processors;
    PLB_PASS_NEW_EACH(owners, self->agenda.item, self->agenda.at);
    memset(self->agenda.at, -1, (size_t)owners * sizeof *self->agenda.at);
    PLB_PASS_NEW0(self->icolls_entered, s->comms.start[s->comms.n]);
    PLB_PASS_NEW0(self->icolls, s->comms.n);
    return PLB_OK;
}

/* --- operations --- */

static int send(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int32_t slot, plb_err_t *err)
{
    PLB_PASS(plb_slot_open(self, rank, slot, err));
    const bool eager = (op->flags & PLB_OP_BUFFERED) ||
                       (op->bytes <= self->target->eager && !(op->flags & PLB_OP_SYNCHRONOUS));
    const message_t message = {.src = rank,
                               .tag = op->tag,
                               .slot = eager ? -1 : slot,
                               .bytes = op->bytes,
                               .op = self->process[rank].at};
    if (eager) {
        plb_slot_complete(self, rank, slot, self->now, -1, 0);
    }
    return plb_message_send(self, op->peer, context_of(op), message, err);
}

/* Post a receive.  One without a source never got a message in the recording, and gets none.  If a
 * nonblocking receive has a wildcard, its WAIT has the source and the tag. */
static int receive(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int32_t slot,
                   plb_err_t *err)
{
    const process_t *process = &self->process[rank];
    int32_t peer = op->peer, tag = op->tag;
    if (op->kind == PLB_OP_IRECV && (op->flags & (PLB_OP_ANY_SOURCE | PLB_OP_ANY_TAG))) {
        const plb_op_t *wait = op + 1, *const end = process->op + process->n;
        while (wait < end && (wait->kind != PLB_OP_WAIT || wait->request != op->request)) {
            wait++;
        }
        peer = wait < end && wait->peer < self->n_ranks ? wait->peer : -1;
        tag = wait < end ? wait->tag : 0;
    }
    PLB_PASS(plb_slot_open(self, rank, slot, err));
    return peer < 0 ? PLB_OK
                    : plb_message_receive(self, rank, context_of(op), peer, tag, slot, err);
}

/* --- one operation after the other --- */

static int perform(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    const plb_op_t *op = &process->op[process->at];
    *verdict = NEXT;
    switch (op->kind) {
    case PLB_OP_END:
        *verdict = END;
        break;
    case PLB_OP_SEND:
        PLB_PASS(send(self, rank, op, OWN_SLOT, err));
        *verdict = plb_slot_wait(self, rank, OWN_SLOT);
        break;
    case PLB_OP_ISEND:
        return send(self, rank, op, op->request + 1, err);
    case PLB_OP_IRECV:
        return receive(self, rank, op, op->request + 1, err);
    case PLB_OP_RECV:
        PLB_PASS(receive(self, rank, op, OWN_SLOT, err));
        *verdict = plb_slot_wait(self, rank, OWN_SLOT);
        break;
    case PLB_OP_PROBE:
        process->probing = plb_message_find(self, rank, context_of(op), op->peer, op->tag) < 0;
        *verdict = process->probing ? WAIT : NEXT;
        break;
    case PLB_OP_WAIT:
        if (op->flags & PLB_OP_CANCELLED) {
            plb_message_cancel(self, rank, op->request + 1);
        } else {
            *verdict = plb_slot_wait(self, rank, op->request + 1);
        }
        break;
    case PLB_OP_COLL:
        return plb_collective_run(self, rank, verdict, err);
    case PLB_OP_ICOLL:
        return plb_collective_enter(self, rank, op, err);
    case PLB_OP_PAUSE:
        plb_agenda_set(self, owner_wake(self, rank), self->now + 1e-9 * (double)op->bytes);
        *verdict = PAUSE;
        break;
    default: /* marks of procedures take no time */
        break;
    }
    return PLB_OK;
}

static void finish(plb_whatif_t *self, int32_t rank, plb_end_t how)
{
    process_t *process = &self->process[rank];
    processor_leave(self, rank);
    process->state = ENDED;
    process->times.finish = self->now;
    process->times.end = (int32_t)how;
}

/* If the rank has waited for a slot, its operation has the same cause. */
static void keep_cause(process_t *process)
{
    if (process->step != NULL && process->waits_for >= 0) {
        plb_op_time_t *step = &process->step[process->at];
        step->cause_rank = process->slot[process->waits_for].cause_rank;
        step->cause_op = process->slot[process->waits_for].cause_op;
    }
    process->waits_for = -1;
}

static void complete(plb_whatif_t *self, int32_t rank)
{
    process_t *process = &self->process[rank];
    keep_cause(process);
    if (process->step != NULL) {
        process->step[process->at].end = self->now;
    }
    process->times.done++;
    process->at++;
}

static int act(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    plb_message_progress(self, rank);
    PLB_PASS(perform(self, rank, verdict, err));
    switch (*verdict) {
    case NEXT:
        complete(self, rank);
        break;
    case WAIT:
    case PAUSE:
        processor_leave(self, rank);
        process->state = *verdict == PAUSE ? PAUSED : WAITING;
        process->since = self->now;
        break;
    case END:
        complete(self, rank);
        finish(self, rank, PLB_END_THROUGH);
        break;
    }
    return PLB_OK;
}

/* Give `rank` more work: seconds at speed 1. */
static void compute(plb_whatif_t *self, int32_t rank, double work)
{
    process_t *one = &self->process[rank];
    processor_t *p = &self->processor[one->processor];
    settle(self, p);
    if (one->has_run) { /* the process is at the top of the heap, because its work is done */
        plb_heap_rekey(&p->active, p->v + work);
    } else {
        plb_heap_push(&p->active, (plb_item_t){p->v + work, rank});
    }
    one->has_run = true;
    one->times.busy += work / p->speed;
    rekey(self, one->processor);
    one->state = COMPUTING;
}

/* Do the rank's next operations until it must compute, waits, or has no more operations. */
static int begin(plb_whatif_t *self, int32_t rank, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    for (;;) {
        if (process->at >= process->n) {
            finish(self, rank, PLB_END_CUT);
            return PLB_OK;
        }
        const plb_op_t *op = &process->op[process->at];
        PLB_PASS(plb_op_check(op, rank, process->at, self->n_ranks, self->comms, err));
        if (process->step != NULL) {
            process->step[process->at] = (plb_op_time_t){.begin = self->now, .cause_rank = -1};
        }
        const bool costs = op->kind != PLB_OP_END && op->kind != PLB_OP_PAUSE &&
                           op->kind < PLB_OP_ENTER && !(op->flags & PLB_OP_SAME_CALL);
        const double work = 1e-9 * (double)op->compute + (costs ? self->target->overhead : 0.0);
        if (work > 0.0) {
            compute(self, rank, work);
            return PLB_OK;
        }
        verdict_t verdict;
        int ret = act(self, rank, &verdict, err);
        if (ret != PLB_OK || verdict != NEXT) {
            return ret;
        }
    }
}

static int computed(plb_whatif_t *self, int32_t rank, plb_err_t *err)
{
    verdict_t verdict;
    const int ret = act(self, rank, &verdict, err);
    return ret != PLB_OK || verdict != NEXT ? ret : begin(self, rank, err);
}

static int event(plb_whatif_t *self, int32_t owner, plb_err_t *err)
{
    if (owner < self->n_ranks) {
        plb_message_arrive(self, owner);
        return PLB_OK;
    }
    if (owner < 2 * self->n_ranks) {
        const int32_t rank = owner - self->n_ranks;
        process_t *process = &self->process[rank];
        plb_agenda_set(self, owner_wake(self, rank), INFINITY);
        *(process->state == PAUSED ? &process->times.paused : &process->times.waiting) +=
            self->now - process->since;
        process->since = self->now;
        plb_hop_t step;
        if (process->probing ||
            (process->exchange >= 0 && plb_collective_next(self, rank, &step))) {
            process->probing = false;
            keep_cause(process);
            if (process->exchange >= 0 && self->target->overhead > 0.0) {
                compute(self, rank, self->target->overhead);
                return PLB_OK;
            }
            return computed(self, rank, err);
        }
        process->exchange = -1;
        if (process->waits_for >= 0) {
            process->slot[process->waits_for].state = SLOT_FREE;
        }
        complete(self, rank);
        return begin(self, rank, err);
    }
    processor_t *p = &self->processor[owner - 2 * self->n_ranks];
    const plb_item_t top = p->active.item[0];
    p->v = top.key; /* set to the key, because a sum of shares would have rounding errors */
    p->last = self->now;
    return computed(self, top.id, err);
}

int plb_whatif(const plb_streams_t *streams, const plb_target_t *target,
               plb_op_time_t *const *step, plb_process_times_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = streams->n_ranks;
    PLB_FAIL_IF(p < 1, err, PLB_ERR_VALUE, "a program of %d ranks: expected at least 1", p);
    PLB_PASS(check(p, &streams->comms, target, err));
    plb_whatif_t self = {.n_ranks = p,
                         .target = target,
                         .comms = &streams->comms,
                         .free_message = -1,
                         .free_post = -1};
    PLB_TRY(init(&self, streams, step, err));
    for (int32_t r = 0; r < p; r++) {
        PLB_TRY(begin(&self, r, err));
    }
    while (self.agenda.n > 0) {
        self.now = self.agenda.item[0].key;
        PLB_TRY(event(&self, self.agenda.item[0].id, err));
        PLB_TRY(plb_interrupted(16));
    }
    for (int32_t r = 0; r < p; r++) {
        const process_t *one = &self.process[r];
        out[r] = one->times;
        out[r].unread = one->n_there;
        for (int32_t m = one->flying; m >= 0; m = self.message[m].next) {
            out[r].unread++;
        }
        if (one->state != ENDED) {
            out[r].finish = one->since;
            out[r].end = PLB_END_STUCK;
        }
    }
out:
    for (int32_t r = 0; self.process != NULL && r < p; r++) {
        plb_free(self.process[r].slot);
    }
    for (int32_t c = 0; self.icolls != NULL && c < streams->comms.n; c++) {
        for (int64_t i = 0; i < self.icolls[c].n; i++) {
            plb_free(self.icolls[c].at[i].slot);
        }
        plb_free(self.icolls[c].at);
    }
    plb_keys_free(&self.channels);
    PLB_FREE(self.process, self.processor, self.heap_room, self.agenda.item, self.agenda.at,
             self.message, self.post, self.channel, self.icolls, self.icolls_entered);
    return ret;
}
