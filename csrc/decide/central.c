#include "decide/central.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "measure/stats.h"
#include "place/kit/agent.h"

enum {
    FACTS = 64,  /* bytes sent for an object: 48 to rank 0, 16 back if it moves */
    EDGE = 40,   /* bytes sent to rank 0 for an edge */
    HELD = 256,  /* bytes on rank 0 for an object in the load database and its copies */
    ROUNDS = 40, /* number of rounds of a distributed placement */
    RECORD = sizeof(plb_stats_t),
    NOTES = 50, /* messages of a rank in all rounds, divided by log2(ranks) (docs/strategies.md) */
    NOTE = sizeof(plb_note_t),
    MOST = 10,
};
static const double WORK = 2e-7;  /* seconds per object: gathering, sorting, placing */
static const double ROUND = 1e-4; /* seconds of computing in a round */
static const double SHORT = 0.05; /* seconds: less time on rank 0 does not matter */
static const double WORSE = 0.01; /* used in loss_of; equal to GossipLB's tolerance */

plb_central_t plb_central_begin(void)
{
    return (plb_central_t){.limit = -1, .per_object = NAN, .rounds = NAN};
}

static double root_of(const plb_central_t *self, const plb_central_case_t *at)
{
    const double n = (double)at->n_objects, beta = at->network.beta;
    const double expected = n * (WORK + beta * FACTS) + (double)at->messages * beta * EDGE;
    return isnan(self->per_object) ? expected : fmin(n * self->per_object, MOST * expected);
}

static double rounds_of(const plb_central_t *self, const plb_central_case_t *at)
{
    const double alpha = at->network.alpha, beta = at->network.beta;
    const double level = 2 * ROUNDS * (alpha + beta * RECORD) + NOTES * (alpha + beta * NOTE);
    return isnan(self->rounds) ? ceil(log2((double)at->n_ranks)) * level + ROUNDS * ROUND
                               : self->rounds;
}

/* Assumed to be left by a strategy that never ran: max/mean 1, or WORSE more if distributed. */
static double loss_of(const plb_central_case_t *at)
{
    const double left = isnan(at->left) ? 1.0 : at->left;
    const double other = isnan(at->left_in_rounds) ? left + WORSE : at->left_in_rounds;
    return fmax(other - left, 0.0) * at->mean * at->iterations;
}

plb_central_answer_t plb_central_compare(const plb_central_t *self, const plb_central_case_t *at)
{
    const double bytes = HELD * (double)at->n_objects;
    plb_central_answer_t out = {
        .root = root_of(self, at), .rounds = rounds_of(self, at), .loss = loss_of(at)};
    if (self->limit >= 0 && bytes > (double)self->limit) {
        out.bytes = bytes;
        out.considered = out.in_rounds = true;
    } else {
        out.considered = out.root >= SHORT && out.root > fmax(out.rounds, self->moving);
        out.in_rounds = out.considered && out.root - out.rounds > out.loss;
    }
    return out;
}

void plb_central_balanced(plb_central_t *self, bool in_rounds, int64_t n_objects, double placing,
                          double moving)
{
    self->moving = isnan(moving) ? 0.0 : moving;
    if (in_rounds) {
        /* fmin ignores NAN */
        self->rounds = fmin(self->rounds, placing);
    } else if (n_objects > 0) {
        self->per_object = fmin(self->per_object, placing / (double)n_objects);
    }
}

void plb_central_say(const plb_central_answer_t *answer, const char *central, const char *other,
                     char *out, size_t size)
{
    const plb_words_t root = plb_in_words(answer->root), rounds = plb_in_words(answer->rounds);
    if (answer->bytes > 0.0) {
        snprintf(out, size,
                 "; %s instead of %s: the load database of %.3g MB exceeds the memory limit of "
                 "rank 0",
                 other, central, 1e-6 * answer->bytes);
    } else if (answer->in_rounds) {
        snprintf(out, size,
                 "; %s instead of %s: %s in rounds on all ranks, instead of %s on rank 0", other,
                 central, rounds.text, root.text);
    } else if (answer->considered) {
        snprintf(out, size,
                 "; not %s, which would take %s in rounds on all ranks, instead of %s on rank 0, "
                 "but lose %s by imbalance until the next LB step",
                 other, rounds.text, root.text, plb_in_words(answer->loss).text);
    }
}
