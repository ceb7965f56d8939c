#include "decide/decider.h"

#include <math.h>

static const double FIRST = 3.0; /* iterations before a preview is due: the first may be warm-up */
static const double BROKEN = 1.05; /* no preview if max/mean <= BROKEN * predicted max/mean */
static const double VOID = 1.5;    /* max/mean > VOID * prediction is neither noise nor drift */
static const double WORSE = 1.1; /* no pause if max/mean > WORSE * max/mean at the last preview */
static const double SOON =
    2.0; /* this many previews need a pause of FIRST iterations only; then it doubles */
static const double LOST =
    8.0; /* a preview is due when the lost time is this multiple of its price */

static void begin(plb_promise_t *self)
{
    self->since = self->lost = 0.0;
}

void plb_promise_init(plb_promise_t *self)
{
    *self = (plb_promise_t){.predicted = INFINITY, .last = 1.0, .level = INFINITY};
}

bool plb_promise_observe(plb_promise_t *self, double max, double mean)
{
    const double ratio = mean > 0.0 ? max / mean : 1.0;
    self->since += 1.0;
    if (isfinite(self->predicted)) {
        self->lost += fmax(max - self->predicted * mean, 0.0);
    }
    const double now = fmin(ratio, self->last); /* the lower one: a spike does not count */
    self->last = ratio;
    if (self->since < FIRST) {
        return false;
    }
    if (now <= BROKEN * self->predicted) {
        self->n_previews = 0.0;
        return false;
    }
    if (now > WORSE * self->level) {
        self->n_previews = 0.0;
    }
    const double pause = FIRST * exp2(fmax(self->n_previews - SOON + 1.0, 0.0));
    if ((self->n_previews > 0.0 && self->since < pause) || self->lost < LOST * self->price) {
        return false;
    }
    self->n_previews += 1.0;
    self->level = now;
    begin(self);
    return true;
}

bool plb_promise_is_void(const plb_promise_t *self)
{
    return self->level > VOID * self->predicted;
}

void plb_promise_balanced(plb_promise_t *self, double predicted, double price)
{
    self->predicted = fmax(predicted, 1.0);
    self->price = price;
    self->last = 1.0; /* the first iteration may be warm-up */
    begin(self);
}
