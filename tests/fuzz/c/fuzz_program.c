/* Models of a program: the simulation of the consensus protocol, and generated programs under a
 * trigger.  The simulation ends in a finite time, at each LB step no rank is beyond the agreed
 * iteration, and the result does not depend on how the calendar of events is divided.  No trigger
 * needs less time than the best schedule, whose time is that of its LB steps. */
#include <math.h>
#include <string.h>

#include "feed.h"
#include "made.h"
#include "replay/generated_program.h"
#include "replay/optimum_generated.h"
#include "replay/protocol.h"

enum { RANKS = 24, ITERATIONS = 40, LONGEST = 60 };

/* ---- the protocol --------------------------------------------------------------------------- */

static double duration(feed_t *feed)
{
    static const double some[] = {0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3, 0.1, 2.0};
    return some[feed_below(feed, 8)];
}

static void draw_protocol(plb_protocol_t *in, feed_t *feed)
{
    plb_protocol_defaults(in);
    in->n_ranks = 1 + feed_below(feed, RANKS);
    in->iterations = 1 + feed_below(feed, ITERATIONS);
    in->every = 1 + feed_below(feed, 12);
    in->lag = feed_bool(feed) ? feed_below(feed, 6) : 0;
    in->fanout = 1 + feed_below(feed, 5);
    in->serves = feed_below(feed, 5);
    in->halo = feed_bool(feed);
    in->blocked = feed_bool(feed);
    in->work = 1e-6 + duration(feed);
    in->spread = duration(feed);
    in->noise = duration(feed);
    in->balancing = duration(feed);
    in->L = 1e-9 + duration(feed);
    in->o = duration(feed);
    in->g = duration(feed);
    in->G = 1e-3 * duration(feed);
    in->bytes = feed_byte(feed);
    in->halo_bytes = feed_byte(feed);
    in->seed = feed_int(feed);
    if (feed_byte(feed) < 16) { /* an invalid or extreme value */
        double *const any[] = {&in->work, &in->spread, &in->noise, &in->balancing,
                               &in->L,    &in->o,      &in->g,     &in->G};
        *any[feed_below(feed, 8)] = feed_double(feed);
    }
}

static void check_decisions(const plb_protocol_t *in, const plb_protocol_result_t *out)
{
    for (int64_t k = 0; k < out->n_decisions; k++) {
        const plb_protocol_decision_t *d = &out->decision[k];
        MUST(d->asked >= 1 && d->asked <= in->iterations && d->tentative > d->asked);
        MUST(d->final == 0 || d->final >= d->tentative);
        MUST(d->known == 0.0 || d->known >= d->root);
        MUST(d->balanced == 0.0 || d->balanced >= d->root);
        MUST(k == 0 || d->asked > d[-1].asked);
    }
}

static void simulate(feed_t *feed)
{
    plb_err_t err = {0, ""};
    plb_protocol_t in;
    plb_protocol_result_t out, again;
    draw_protocol(&in, feed);
    const int64_t fail_at = feed_byte(feed) < 32 ? feed_byte(feed) : -1;
    plb_mem_fail_at(fail_at);
    const int ret = plb_protocol_run(&in, &out, &err);
    plb_mem_fail_at(-1);
    MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_STATE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err.text[0] != '\0');
    /* only ranks in a blocking receive, without a lag, can wait for each other forever */
    MUST(ret != PLB_ERR_STATE || (in.halo && in.blocked && in.lag == 0));
    if (ret == PLB_OK) {
        MUST(isfinite(out.seconds) && out.seconds >= 0.0);
        MUST(out.seconds >= in.work * (double)in.iterations * (1.0 - 1e-9));
        MUST(out.pause >= 0.0 && out.pause <= out.pause_max * (1.0 + 1e-9));
        check_decisions(&in, &out);
        in.bucket = 1.0 / (1 + feed_below(feed, 8));
        const int narrow = plb_protocol_run(&in, &again, &err);
        if (narrow == PLB_ERR_VALUE) { /* too many of these buckets */
            plb_protocol_result_free(&again);
            plb_protocol_result_free(&out);
            return;
        }
        MUST(narrow == PLB_OK);
        MUST(out.seconds == again.seconds && out.n_decisions == again.n_decisions);
        MUST(fabs(out.pause - again.pause) <= 1e-9 * out.seconds);
        MUST(fabs(out.messages_sent - again.messages_sent) <= 1e-9 * out.messages_sent);
        plb_protocol_result_free(&again);
    }
    plb_protocol_result_free(&out);
}

/* ---- a generated program -------------------------------------------------------------------- */

/* Return the time of a schedule: LB steps at the end of the iterations when[n]. */
static double time_of(const plb_program_t *p, const int64_t *when, int64_t n, double cost)
{
    double out = 0.0;
    for (int64_t i = 0, k = 0, s = 0; i < p->n; i++) {
        out += plb_program_time(p, s, i);
        if (k < n && when[k] == i) {
            out += cost;
            s = i + 1;
            k++;
        }
    }
    return out;
}

static void check_best(const plb_program_t *p, plb_trigger_t *trigger, double cost,
                       int64_t fail_at)
{
    plb_err_t err = {0, ""};
    double time[LONGEST], used = 0.0;
    int64_t when[LONGEST], n = 0;
    plb_optimum_t best;
    const plb_optimum_opts_t opts = {.cost = cost};
    int ret = plb_program_run(p, trigger, cost, time, when, &n, &err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && err.text[0] != '\0'));
    for (int64_t i = 0; ret == PLB_OK && i < p->n; i++) {
        used += time[i];
    }
    used += cost * (double)n;
    plb_mem_fail_at(fail_at);
    const int found = plb_optimum_of_program(&best, p, &opts, &err);
    plb_mem_fail_at(-1);
    MUST(found == PLB_OK || (found == PLB_ERR_NOMEM && fail_at >= 0));
    if (found == PLB_OK) {
        MUST(fabs(time_of(p, best.when, best.n, cost) - best.time) <= 1e-9 * best.time);
        MUST(ret != PLB_OK || best.time <= used * (1.0 + 1e-9));
        MUST(ret != PLB_OK || fabs(time_of(p, when, n, cost) - used) <= 1e-9 * used);
    }
    plb_optimum_free(&best);
}

static void generate(feed_t *feed)
{
    plb_err_t err = {0, ""};
    const size_t n = feed_below(feed, LONGEST + 1);
    const uint8_t has = feed_byte(feed);
    double *growth = has & 1 ? feed_amounts(feed, n) : NULL;
    double *drift = has & 2 ? feed_amounts(feed, n) : NULL;
    double *noise = has & 4 ? feed_amounts(feed, n) : NULL;
    const plb_program_t p = {.n = (int64_t)n,
                             .mean = feed_byte(feed) / 16.0,
                             .residual = feed_byte(feed) / 64.0 - 1.0,
                             .start = feed_byte(feed) / 64.0,
                             .growth = growth,
                             .drift = drift,
                             .noise = noise};
    made_t *made = plb_calloc(1, sizeof *made);
    if (made_init(made, feed, 2, &err) == PLB_OK) {
        check_best(&p, &made->trigger, feed_byte(feed) / 16.0,
                   feed_byte(feed) < 32 ? feed_byte(feed) % 8 : -1);
    }
    made_free(made);
    plb_free(made);
    PLB_FREE(growth, drift, noise);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    feed_byte(&feed) < 160 ? simulate(&feed) : generate(&feed);
    return 0;
}
