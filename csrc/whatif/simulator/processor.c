#include "whatif/simulator/processor.h"

#include <math.h>

/* --- available time --- */

/* Seconds in which the processor was available, from the start of its first period to `time`. */
static double there_until(const processor_t *p, double time)
{
    const double since = time - p->phase, whole = floor(since / p->period);
    const double part = since - whole * p->period;
    return whole * p->on + (part < p->on ? part : p->on);
}

static double work_between(const processor_t *p, double from, double to)
{
    const double seconds = p->period > 0.0 ? there_until(p, to) - there_until(p, from) : to - from;
    return seconds * p->speed;
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

/* Factor by which waiting processes that poll slow down the computing ones. */
static double slowed(const plb_whatif_t *self, const processor_t *p)
{
    return 1.0 + self->target.polling * p->asking;
}

/* --- equal shares --- */

static double crowd(const plb_whatif_t *self, const processor_t *p)
{
    return (p->active.n + p->spinning) * slowed(self, p);
}

static void settle(const plb_whatif_t *self, processor_t *p)
{
    if (p->active.n > 0) {
        p->v += work_between(p, p->last, self->now) / crowd(self, p);
    } else {
        p->v = 0.0;
    }
    p->last = self->now;
}

static double share_ends(const plb_whatif_t *self, const processor_t *p)
{
    if (p->active.n == 0) {
        return INFINITY;
    }
    const double left = p->active.item[0].key - p->v;
    return done_after(p, p->last, left * crowd(self, p));
}

static void share_give(processor_t *p, const process_t *process, int32_t rank, double work)
{
    if (process->has_run) { /* the process is at the top of the heap, because its work is done */
        plb_heap_rekey(&p->active, p->v + work);
    } else {
        plb_heap_push(&p->active, (plb_item_t){p->v + work, rank});
    }
}

/* --- turns: a ring, whose first process runs --- */

/* active.n: number of processes in the ring; `spinning`: how many of these wait */
static void ring_remove(plb_whatif_t *self, processor_t *p, int32_t rank)
{
    process_t *one = &self->process[rank];
    *(one->prev_turn >= 0 ? &self->process[one->prev_turn].next_turn : &p->turn) = one->next_turn;
    *(one->next_turn >= 0 ? &self->process[one->next_turn].prev_turn : &p->tail) = one->prev_turn;
    one->in_queue = false;
    p->active.n--;
}

static void ring_insert(plb_whatif_t *self, processor_t *p, int32_t rank, bool first)
{
    process_t *one = &self->process[rank];
    one->prev_turn = first ? -1 : p->tail;
    one->next_turn = first ? p->turn : -1;
    *(one->prev_turn >= 0 ? &self->process[one->prev_turn].next_turn : &p->turn) = rank;
    *(one->next_turn >= 0 ? &self->process[one->next_turn].prev_turn : &p->tail) = rank;
    one->in_queue = true;
    p->active.n++;
}

static void ring_settle(plb_whatif_t *self, processor_t *p)
{
    if (p->turn >= 0) {
        self->process[p->turn].left -= work_between(p, p->last, self->now) / slowed(self, p);
    }
    p->last = self->now;
}

static double first_done(const plb_whatif_t *self, const processor_t *p)
{
    const double left = self->process[p->turn].left;
    return isinf(left) ? INFINITY : done_after(p, p->last, left * slowed(self, p));
}

static double ring_ends(const plb_whatif_t *self, const processor_t *p)
{
    if (p->active.n == p->spinning) { /* all processes are waiting */
        return INFINITY;
    }
    const double done = first_done(self, p);
    return p->turn != p->tail && p->turn_ends < done ? p->turn_ends : done;
}

/* Prepare the ring for one more process.  If the running process was alone, its turn had no end;
 * now its turn ends at the next multiple of the quantum. */
static void ring_join(plb_whatif_t *self, processor_t *p)
{
    const double quantum = self->target.quantum;
    if (p->turn_ends <= self->now) {
        p->turn_ends += quantum * (floor((self->now - p->turn_ends) / quantum) + 1.0);
        if (p->turn_ends <= self->now) { /* because of rounding, the end may be in the past */
            p->turn_ends = self->now + quantum;
        }
    }
}

static void ring_give(plb_whatif_t *self, processor_t *p, int32_t rank, double work)
{
    process_t *one = &self->process[rank];
    ring_settle(self, p);
    const bool spun = one->in_queue && isinf(one->left);
    one->left = work;
    if (spun) {
        p->spinning--;
        ring_join(self, p);
    }
    if (one->in_queue) { /* the process runs already, or waits for its turn */
        return;
    }
    if (p->turn < 0) {
        p->turn_ends = self->now + self->target.quantum;
        ring_insert(self, p, rank, false);
    } else if (self->target.waiting == PLB_WAIT_BLOCK && one->state == WAITING) {
        /* a process that has slept runs first, as in most operating systems */
        ring_insert(self, p, rank, true);
        p->turn_ends = self->now + self->target.quantum;
    } else {
        ring_join(self, p);
        ring_insert(self, p, rank, false);
    }
}

static void ring_leave(plb_whatif_t *self, processor_t *p, int32_t rank, bool gone)
{
    process_t *one = &self->process[rank];
    ring_settle(self, p);
    const bool spun = one->in_queue && isinf(one->left);
    p->spinning -= spun;
    if (!gone && self->target.waiting == PLB_WAIT_SPIN) {
        p->spinning++;
        one->left = INFINITY;
        if (!one->in_queue) {
            ring_insert(self, p, rank, false);
        }
        return;
    }
    if (one->in_queue) {
        const bool had_turn = p->turn == rank;
        ring_remove(self, p, rank);
        if (had_turn) {
            p->turn_ends = self->now + self->target.quantum;
        }
    }
}

/* --- equal shares and turns --- */

static void rekey(plb_whatif_t *self, int32_t number)
{
    const processor_t *p = &self->processor[number];
    plb_agenda_set(&self->agenda, owner_processor(self, number),
                   self->target.quantum > 0.0 ? ring_ends(self, p) : share_ends(self, p));
}

static bool asks(const plb_whatif_t *self)
{
    return self->target.waiting != PLB_WAIT_SPIN;
}

void plb_processor_give(plb_whatif_t *self, int32_t rank, double work)
{
    process_t *one = &self->process[rank];
    processor_t *p = &self->processor[one->processor];
    if (self->target.quantum > 0.0) {
        ring_give(self, p, rank, work);
    } else {
        settle(self, p);
        if (self->target.waiting == PLB_WAIT_SPIN && one->state == WAITING) {
            p->spinning--;
        }
        share_give(p, one, rank, work);
    }
    p->asking -= asks(self) && one->state == WAITING;
    one->has_run = true;
    one->times.busy += work / p->speed;
    rekey(self, one->processor);
}

void plb_processor_leave(plb_whatif_t *self, int32_t rank, bool gone)
{
    process_t *one = &self->process[rank];
    processor_t *p = &self->processor[one->processor];
    if (self->target.quantum > 0.0) {
        ring_leave(self, p, rank, gone);
    } else {
        settle(self, p);
        if (one->has_run) {
            plb_heap_pop(&p->active);
        }
        const bool spins = self->target.waiting == PLB_WAIT_SPIN;
        p->spinning += spins * (!gone - (one->state == WAITING));
    }
    p->asking += asks(self) * (!gone - (one->state == WAITING));
    one->has_run = false;
    rekey(self, one->processor);
}

int32_t plb_processor_event(plb_whatif_t *self, int32_t number)
{
    processor_t *p = &self->processor[number];
    if (self->target.quantum <= 0.0) {
        const plb_item_t top = p->active.item[0];
        p->v = top.key; /* not a sum of shares, which would have rounding errors */
        p->last = self->now;
        return top.id;
    }
    const int32_t rank = p->turn;
    const double done = first_done(self, p);
    ring_settle(self, p);
    if (done <= self->now) {
        self->process[rank].left = 0.0;
        return rank;
    }
    ring_remove(self, p, rank);
    ring_insert(self, p, rank, false);
    p->turn_ends = self->now + self->target.quantum;
    rekey(self, number);
    return -1;
}
