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

/* --- equal shares --- */

/* Bring v, the work that each computing process has got, up to the present time. */
static void settle(const plb_whatif_t *self, processor_t *p)
{
    p->v = p->active.n > 0 ? p->v + work_between(p, p->last, self->now) / p->active.n : 0.0;
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

void plb_processor_give(plb_whatif_t *self, int32_t rank, double work)
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
}

void plb_processor_leave(plb_whatif_t *self, int32_t rank)
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

int32_t plb_processor_event(plb_whatif_t *self, int32_t number)
{
    processor_t *p = &self->processor[number];
    const plb_item_t top = p->active.item[0];
    p->v = top.key; /* not a sum of shares, which would have rounding errors */
    p->last = self->now;
    return top.id;
}
