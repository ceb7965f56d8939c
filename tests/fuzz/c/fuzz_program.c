/* Generated programs under a trigger: no trigger needs less time than the best schedule, whose
 * time is that of its LB steps. */
#include <math.h>
#include <string.h>

#include "feed.h"
#include "made.h"
#include "replay/generated_program.h"
#include "replay/optimum.h"

enum { LONGEST = 60 };

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plb_err_t err = {0, ""};
    feed_t in = feed_of(data, size), *feed = &in;
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
    return 0;
}
