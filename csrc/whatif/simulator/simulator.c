#include "whatif/simulator/simulator.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "whatif/ops_check.h"
#include "whatif/simulator/collective.h"
#include "whatif/simulator/message.h"
#include "whatif/simulator/order.h"
#include "whatif/simulator/processor.h"
#include "whatif/simulator/slots.h"
#include "whatif/simulator/target.h"

/* --- begin and end --- */

/* Set the share of a processor.  Its periods are shifted by a multiple of the golden ratio, so
 * that the periods of different processors do not begin together. */
static void hold_to_share(processor_t *one, int32_t number, double share, double period)
{
    if (share >= 1.0) {
        return;
    }
    if (period <= 0.0) {
        one->speed *= share;
        return;
    }
    one->period = period;
    one->on = share * period;
    one->phase = period * (fmod(0.6180339887498949 * number, 1.0) - 1.0);
}

static int make_processors(plb_whatif_t *self, const double *share, plb_err_t *err)
{
    const plb_target_t *t = &self->target;
    PLB_PASS_NEW0(self->processor, t->n_processors);
    PLB_PASS_NEW0(self->heap_room, self->n_ranks);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        self->processor[t->place[r]].active.n++; /* at first, it counts all processes */
    }
    plb_item_t *room = self->heap_room;
    for (int32_t p = 0; p < t->n_processors; p++) {
        processor_t *one = &self->processor[p];
        const int32_t residents = one->active.n;
        *one = (processor_t){.speed = t->speed[p]};
        hold_to_share(one, p, share ? share[p] : 1.0, t->period);
        one->active.item = room;
        room += residents;
    }
    return PLB_OK;
}

static int make_processes(plb_whatif_t *self, plb_err_t *err)
{
    PLB_PASS_NEW0(self->process, self->n_ranks);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        self->process[r] = (process_t){.processor = self->target.place[r],
                                       .waits_for = -1,
                                       .exchange = -1,
                                       .flying = -1,
                                       .flying_last = -1,
                                       .there = -1,
                                       .there_last = -1,
                                       .any = -1,
                                       .any_last = -1,
                                       .rendezvous = -1,
                                       .frontier = -1};
    }
    return PLB_OK;
}

static int make_agenda(plb_whatif_t *self, plb_err_t *err)
{
    const int64_t owners = 2 * (int64_t)self->n_ranks + self->target.n_processors;
    PLB_PASS_NEW_EACH(owners, self->agenda.item, self->agenda.at);
    memset(self->agenda.at, -1, (size_t)owners * sizeof *self->agenda.at);
    return PLB_OK;
}

plb_whatif_t *plb_whatif_new(int32_t n_ranks, const plb_comms_t *comms, const plb_target_t *target,
                             plb_err_t *err)
{
    int ret = PLB_OK;
    plb_whatif_t *self = NULL;
    if (n_ranks < 1) {
        (void)PLB_FAIL(err, PLB_ERR_VALUE, "a program of %d ranks: expected at least 1", n_ranks);
        return NULL;
    }
    PLB_NEW0(self, 1);
    self->n_ranks = n_ranks;
    self->missing = -1;
    self->free_message = self->free_post = self->free_icoll = -1;
    PLB_TRY(plb_target_set(self, target, err));
    PLB_TRY(make_processors(self, target->share, err));
    PLB_TRY(make_processes(self, err));
    PLB_TRY(make_agenda(self, err));
    PLB_TRY(plb_whatif_comms(self, comms, err));
out:
    if (ret != PLB_OK) {
        plb_whatif_destroy(self);
        self = NULL;
    }
    return self;
}

void plb_whatif_destroy(plb_whatif_t *self)
{
    if (self == NULL) {
        return;
    }
    for (int32_t r = 0; self->process != NULL && r < self->n_ranks; r++) {
        plb_free(self->process[r].slot);
        plb_free(self->process[r].skipped);
    }
    for (int32_t i = 0; i < self->n_icolls; i++) {
        plb_free(self->icoll[i].slot);
    }
    plb_keys_free(&self->channels);
    PLB_FREE(self->target_arrays, self->comm_start, self->comm_member, self->process,
             self->processor, self->heap_room, self->agenda.item, self->agenda.at, self->message,
             self->post, self->channel, self->icoll, self->icoll_sequence, self->icoll_open, self);
}

int plb_whatif_comms(plb_whatif_t *self, const plb_comms_t *comms, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t members = comms->start[comms->n];
    const int64_t had = self->comm_start ? self->comm_start[self->comms.n] : 0;
    const int32_t had_comms = self->comms.n;
    int64_t *start = NULL, *sequence = NULL;
    int32_t *member = NULL, *open = NULL;
    /* the keys of channels must fit into 64 bits */
    if (comms->n > INT64_MAX / 2 / self->n_ranks / self->n_ranks) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "%d communicators of %d ranks: expected fewer",
                        comms->n, self->n_ranks);
    }
    for (int64_t i = 0; i < members; i++) {
        PLB_FAIL_IF(comms->member[i] < 0 || comms->member[i] >= self->n_ranks, err, PLB_ERR_RANGE,
                    "a member of a communicator is rank %d: expected 0 ... %d", comms->member[i],
                    self->n_ranks - 1);
    }
    PLB_NEW(start, comms->n + 1);
    PLB_NEW(member, members);
    PLB_NEW0(sequence, members);
    PLB_NEW(open, comms->n);
    memcpy(start, comms->start, (size_t)(comms->n + 1) * sizeof *start);
    memcpy(member, comms->member, (size_t)members * sizeof *member);
    memset(open, -1, (size_t)comms->n * sizeof *open);
    if (had_comms > 0) {
        memcpy(sequence, self->icoll_sequence, (size_t)had * sizeof *sequence);
        memcpy(open, self->icoll_open, (size_t)had_comms * sizeof *open);
    }
    PLB_FREE(self->comm_start, self->comm_member, self->icoll_sequence, self->icoll_open);
    self->comm_start = start;
    self->comm_member = member;
    self->icoll_sequence = sequence;
    self->icoll_open = open;
    self->comms = (plb_comms_t){comms->n, start, member};
    return PLB_OK;
out:
    PLB_FREE(start, member, sequence, open);
    return ret;
}

int plb_whatif_feed(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int64_t n, bool closed,
                    plb_op_time_t *step, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    PLB_FAIL_IF(n < process->n, err, PLB_ERR_VALUE,
                "rank %d: the log has shrunk to %lld operations, from %lld", rank, (long long)n,
                (long long)process->n);
    process->op = op;
    process->n = n;
    process->closed = closed;
    process->step = step;
    return PLB_OK;
}

static int32_t chain_length(const plb_whatif_t *self, int32_t first)
{
    int32_t out = 0;
    for (int32_t m = first; m >= 0; m = self->message[m].next) {
        out++;
    }
    return out;
}

void plb_whatif_times(const plb_whatif_t *self, plb_process_times_t *out)
{
    for (int32_t r = 0; r < self->n_ranks; r++) {
        const process_t *one = &self->process[r];
        out[r] = one->times;
        out[r].unread = chain_length(self, one->there) + chain_length(self, one->flying);
    }
}

int64_t plb_whatif_memory(const plb_whatif_t *self)
{
    int64_t out = (int64_t)sizeof *self;
    out += (int64_t)self->room_messages * (int64_t)sizeof *self->message;
    out += (int64_t)self->room_posts * (int64_t)sizeof *self->post;
    out += (int64_t)self->room_channels * (int64_t)sizeof *self->channel;
    out += self->channels.index.n_buckets * (int64_t)sizeof *self->channels.index.bucket;
    out += self->channels.room * (int64_t)sizeof *self->channels.key;
    out += (2 * (int64_t)self->n_ranks + self->target.n_processors) *
           (int64_t)(sizeof *self->agenda.item + sizeof *self->agenda.at);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        const process_t *one = &self->process[r];
        out += (int64_t)sizeof *one + one->n_slots * (int64_t)sizeof *one->slot +
               one->room_skipped * 8;
    }
    return out;
}

/* --- operations --- */

static int send(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int32_t slot, plb_err_t *err)
{
    PLB_PASS(plb_slot_open(self, rank, slot, err));
    const bool eager = (op->flags & PLB_OP_BUFFERED) ||
                       (op->bytes <= self->target.eager && !(op->flags & PLB_OP_SYNCHRONOUS));
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

static int32_t wanted_tag(const plb_op_t *op)
{
    return (op->flags & PLB_OP_ANY_TAG) ? PLB_ANY_TAG : op->tag;
}

/* Find the WAIT that has the recorded source and tag of a receive with wildcards; NULL: not found.
 * *unknown: whether the WAIT can be among operations that were not passed yet. */
static const plb_op_t *its_wait(const process_t *process, bool *unknown)
{
    const int32_t request = process->op[process->at].request;
    for (int64_t i = process->at + 1; i < process->n; i++) {
        if (process->op[i].kind == PLB_OP_WAIT && process->op[i].request == request) {
            return &process->op[i];
        }
    }
    *unknown = !process->closed;
    return NULL;
}

static int receive(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int32_t slot,
                   plb_err_t *err)
{
    const bool any = (op->flags & PLB_OP_ANY_SOURCE) && !self->process[rank].is_chosen;
    const int ret = plb_slot_open(self, rank, slot, err);
    return ret != PLB_OK ? ret
                         : plb_message_receive(self, rank, context_of(op), any ? -1 : op->peer,
                                               wanted_tag(op), slot, err);
}

static int irecv(plb_whatif_t *self, int32_t rank, const plb_op_t *op, verdict_t *verdict,
                 plb_err_t *err)
{
    plb_op_t as = *op;
    if (self->target.as_recorded && (op->flags & (PLB_OP_ANY_SOURCE | PLB_OP_ANY_TAG))) {
        bool unknown = false;
        const plb_op_t *wait = its_wait(&self->process[rank], &unknown);
        if (unknown) {
            *verdict = MISSING;
            return PLB_OK;
        }
        if (wait != NULL && wait->peer >= 0 && wait->peer < self->n_ranks) {
            as.peer = wait->peer;
            as.tag = wait->tag;
            as.flags = 0;
        }
    }
    *verdict = NEXT;
    return receive(self, rank, &as, as.request + 1, err);
}

static int receive_or_probe(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    int ret = PLB_OK;
    process->is_chosen = self->target.as_recorded;
    if (plb_order_is_open(&process->op[process->at]) && !self->target.as_recorded) {
        plb_order_t choice;
        PLB_PASS(plb_order_choose(self, rank, &choice, err));
        if (choice != CHOICE_MADE) {
            process->probing = choice == CHOICE_NONE;
            *verdict = choice == CHOICE_NONE ? WAIT : MISSING;
            return PLB_OK;
        }
        process->is_chosen = true;
    }
    const plb_op_t *op = &process->op[process->at];
    if (op->kind == PLB_OP_PROBE) {
        const bool any = (op->flags & PLB_OP_ANY_SOURCE) && !process->is_chosen;
        const int32_t m =
            plb_message_find(self, rank, context_of(op), any ? -1 : op->peer, wanted_tag(op));
        process->probing = m < 0;
        *verdict = m < 0 ? WAIT : NEXT;
        return PLB_OK;
    }
    ret = receive(self, rank, op, OWN_SLOT, err);
    *verdict = ret == PLB_OK ? plb_slot_wait(self, rank, OWN_SLOT) : NEXT;
    return ret;
}

/* --- one operation after the other --- */

static void wake_at(plb_whatif_t *self, int32_t rank, double when)
{
    plb_agenda_set(self, owner_wake(self, rank), when);
}

static int perform(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    const plb_op_t *op = &process->op[process->at];
    int ret = PLB_OK;
    *verdict = NEXT;
    process->is_chosen = false;
    switch (op->kind) {
    case PLB_OP_END:
        *verdict = END;
        break;
    case PLB_OP_SEND:
        if ((ret = send(self, rank, op, OWN_SLOT, err)) == PLB_OK) {
            *verdict = plb_slot_wait(self, rank, OWN_SLOT);
        }
        break;
    case PLB_OP_ISEND:
        ret = send(self, rank, op, op->request + 1, err);
        break;
    case PLB_OP_IRECV:
        ret = irecv(self, rank, op, verdict, err);
        break;
    case PLB_OP_RECV:
    case PLB_OP_PROBE:
        ret = receive_or_probe(self, rank, verdict, err);
        break;
    case PLB_OP_WAIT:
        if (op->flags & PLB_OP_CANCELLED) {
            plb_message_cancel(self, rank, op->request + 1);
        } else {
            *verdict = plb_slot_wait(self, rank, op->request + 1);
        }
        break;
    case PLB_OP_COLL:
        ret = plb_collective_run(self, rank, verdict, err);
        break;
    case PLB_OP_ICOLL:
        ret = plb_collective_enter(self, rank, op, err);
        break;
    case PLB_OP_PAUSE:
        wake_at(self, rank, self->now + 1e-9 * (double)op->bytes);
        *verdict = PAUSE;
        break;
    default: /* marks of procedures take no time */
        break;
    }
    return ret;
}

static void finish(plb_whatif_t *self, int32_t rank, plb_end_t how)
{
    process_t *process = &self->process[rank];
    plb_processor_leave(self, rank);
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
    if (process->rendezvous >= 0) {
        plb_message_progress(self, rank);
    }
    PLB_PASS(perform(self, rank, verdict, err));
    process->in_call = *verdict == MISSING;
    switch (*verdict) {
    case NEXT:
        complete(self, rank);
        break;
    case WAIT:
    case PAUSE:
        plb_processor_leave(self, rank);
        process->state = *verdict == PAUSE ? PAUSED : WAITING;
        process->since = self->now;
        break;
    case END:
        complete(self, rank);
        finish(self, rank, PLB_END_THROUGH);
        break;
    default:
        self->missing = rank;
        break;
    }
    return PLB_OK;
}

static double work_of(const plb_whatif_t *self, const plb_op_t *op)
{
    const bool costs = op->kind != PLB_OP_END && op->kind != PLB_OP_PAUSE &&
                       op->kind < PLB_OP_ENTER && !(op->flags & PLB_OP_SAME_CALL);
    return 1e-9 * (double)op->compute + (costs ? self->target.overhead : 0.0);
}

static void compute(plb_whatif_t *self, int32_t rank, double work)
{
    plb_processor_give(self, rank, work);
    self->process[rank].state = COMPUTING;
}

/* Do the rank's next operations until it must compute, waits, or has no more operations. */
static int begin(plb_whatif_t *self, int32_t rank, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    for (;;) {
        if (process->at >= process->n) {
            if (process->closed) {
                finish(self, rank, PLB_END_CUT);
            } else {
                self->missing = rank;
            }
            return PLB_OK;
        }
        const plb_op_t *op = &process->op[process->at];
        PLB_PASS(plb_op_check(op, rank, process->at, self->n_ranks, &self->comms, err));
        if (process->step != NULL) {
            process->step[process->at] = (plb_op_time_t){.begin = self->now, .cause_rank = -1};
        }
        const double work = work_of(self, op);
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

static void count_waiting(plb_whatif_t *self, int32_t rank)
{
    process_t *process = &self->process[rank];
    *(process->state == PAUSED ? &process->times.paused : &process->times.waiting) +=
        self->now - process->since;
    process->since = self->now;
}

static int woken(plb_whatif_t *self, int32_t rank, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    wake_at(self, rank, INFINITY);
    count_waiting(self, rank);
    plb_hop_t step;
    if (process->probing || (process->exchange >= 0 && plb_collective_next(self, rank, &step))) {
        process->probing = false;
        keep_cause(process);
        if (process->exchange >= 0 && self->target.overhead > 0.0) {
            compute(self, rank, self->target.overhead);
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

static int event(plb_whatif_t *self, int32_t owner, plb_err_t *err)
{
    if (owner < self->n_ranks) {
        plb_message_arrive(self, owner);
        return PLB_OK;
    }
    if (owner < 2 * self->n_ranks) {
        return woken(self, owner - self->n_ranks, err);
    }
    return computed(self, plb_processor_event(self, owner - 2 * self->n_ranks), err);
}

/* Continue the rank for which operations were missing. */
static int resume(plb_whatif_t *self, plb_err_t *err)
{
    const int32_t rank = self->missing;
    process_t *process = &self->process[rank];
    self->missing = -1;
    return process->in_call ? computed(self, rank, err) : begin(self, rank, err);
}

static int start(plb_whatif_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    while (ret == PLB_OK && self->missing < 0 && self->n_started < self->n_ranks) {
        ret = begin(self, self->n_started++, err);
    }
    return ret;
}

static void note_stuck(plb_whatif_t *self)
{
    for (int32_t r = 0; r < self->n_ranks; r++) {
        process_t *process = &self->process[r];
        if (process->state != ENDED) {
            process->times.finish = process->since;
            process->times.end = PLB_END_STUCK;
        }
    }
}

int plb_whatif_run(plb_whatif_t *self, int32_t *missing, plb_err_t *err)
{
    int ret = self->missing >= 0 ? resume(self, err) : PLB_OK;
    PLB_THEN(start(self, err));
    while (ret == PLB_OK && self->missing < 0) {
        if (self->agenda.n == 0) {
            note_stuck(self);
            break;
        }
        self->now = self->agenda.item[0].key;
        ret = event(self, self->agenda.item[0].id, err);
        PLB_THEN(plb_interrupted(16));
    }
    for (int32_t r = 0; r < self->n_ranks; r++) {
        if (self->process[r].state != ENDED && self->process[r].times.end != PLB_END_STUCK) {
            self->process[r].times.finish = self->now;
        }
    }
    *missing = self->missing;
    return ret;
}
