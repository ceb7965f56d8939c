/* What is measured: the evaluation of any placement of any snapshot, against plain sums; speeds
 * learned from any times; estimates of loads.  Numbers
 * are finite and in their ranges, and the same input gives the same answer. */
#include <math.h>
#include <string.h>

#include "anything.h"
#include "measure/measure.h"
#include "plb.h"

enum { RANKS = 6, OBJECTS = 12, ITERATIONS = 40 };

/* ---- an evaluation -------------------------------------------------------------------------- */

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void check_evaluation(const plb_snapshot_t *s, const int32_t *rank,
                             const plb_evaluation_t *e)
{
    double cut = 0.0;
    int64_t migrations = 0;
    for (int64_t i = 0; i < s->n_edges; i++) {
        cut += rank[s->edge_src[i]] != rank[s->edge_dst[i]] ? s->edge_bytes[i] : 0.0;
    }
    for (int64_t i = 0; i < s->n_objects; i++) {
        migrations += rank[i] != s->rank[i];
    }
    MUST(near(e->cut, cut) && e->migrations == migrations && e->migration_bytes >= 0);
    MUST(near(e->cut + e->connectivity, e->bytes_node + e->bytes_network));
    MUST(near(e->hop_bytes, 2.0 * e->bytes_node + 4.0 * e->bytes_network));
    MUST(e->link_max <= e->sent_max * (1.0 + 1e-9) && e->memory_max >= 0);
    MUST((e->link_src < 0) == (e->link_dst < 0) && e->link_src < s->n_ranks);
    MUST(e->neighbours_mean <= (double)e->neighbours_max * (1.0 + 1e-9));
    MUST(e->neighbours_max < s->n_ranks);
}

static void evaluate(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    anything_t any;
    plb_evaluation_t e;
    anything_init(&any, feed, 60, 12, 90);
    const plb_snapshot_t *s = &any.snapshot;
    int32_t *rank = feed_indices(feed, (size_t)s->n_objects, 0, s->n_ranks);
    if (plb_snapshot_check(s, &err) == PLB_OK) {
        const int32_t *at = feed_bool(feed) ? rank : s->rank;
        plb_mem_fail_at(fail_at);
        const int ret = plb_evaluate(s, at == s->rank ? NULL : at, &e, &err);
        plb_mem_fail_at(-1);
        MUST(ret == PLB_OK || err.text[0] != '\0');
        MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
             (ret == PLB_ERR_NOMEM && fail_at >= 0));
        if (ret == PLB_OK) {
            check_evaluation(s, at, &e);
        }
    }
    plb_free(rank);
    anything_free(&any);
}

/* ---- speeds --------------------------------------------------------------------------------- */

static void learn(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    plb_learner_t learner;
    double speed[RANKS];
    const int32_t p = 1 + (int32_t)feed_below(feed, RANKS);
    plb_mem_fail_at(fail_at);
    int ret = plb_learner_init(&learner, p, &err);
    if (ret != PLB_OK) {
        plb_mem_fail_at(-1);
        MUST(ret == PLB_ERR_NOMEM && fail_at >= 0);
        return;
    }
    for (int k = 0; ret == PLB_OK && k < ITERATIONS && (feed->at < feed->end || k < 4); k++) {
        const int64_t n = feed_below(feed, OBJECTS + 1);
        int64_t key[OBJECTS];
        for (int64_t i = 0; i < n; i++) {
            key[i] = feed_byte(feed) < 8 ? 0 : (i + k) * 3 % OBJECTS;
        }
        int32_t *rank = feed_indices(feed, (size_t)n, 0, p + (feed_byte(feed) < 8));
        double *seconds = feed_amounts(feed, (size_t)n);
        double *work = feed_byte(feed) < 64 ? feed_amounts(feed, (size_t)n) : NULL;
        ret = plb_learner_observe(&learner, n, key, rank, seconds, work, k % 2 ? 1.0 : 0.5, &err);
        MUST(ret == PLB_OK || err.text[0] != '\0');
        MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
             (ret == PLB_ERR_NOMEM && fail_at >= 0));
        plb_learner_speeds(&learner, speed);
        for (int32_t r = 0; r < p; r++) {
            MUST(speed[r] >= 1e-30 && speed[r] <= 1e30 && learner.error[r] >= 0.0);
        }
        MUST(isfinite(learner.sigma) && isfinite(learner.evidence));
        PLB_FREE(rank, seconds, work);
    }
    plb_mem_fail_at(-1);
    plb_learner_free(&learner);
}

/* ---- estimates ------------------------------------------------------------------------------ */

/* An estimate is between the least and the largest load, apart from rounding. */
static void estimate(feed_t *feed, int64_t fail_at)
{
    double table[PLB_ESTIMATE_ROWS * OBJECTS] = {0.0}, drift[OBJECTS];
    const int64_t n = 1 + feed_below(feed, OBJECTS);
    double least = INFINITY, most = 0.0;
    (void)fail_at;
    for (int k = 0; k < ITERATIONS && (feed->at < feed->end || k < 4); k++) {
        double *load = feed_amounts(feed, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            least = fmin(least, load[i]);
            most = fmax(most, load[i]);
        }
        plb_estimate_update(load, n, table);
        plb_estimate_drift(table, n, drift);
        for (int64_t i = 0; i < n; i++) {
            const double mean = table[PLB_ESTIMATE_MEAN * n + i];
            MUST(mean >= 0.0 && mean >= least - 1e-9 * most && mean <= most * (1.0 + 1e-9));
            MUST(table[PLB_ESTIMATE_COUNT * n + i] == k + 1.0);
            MUST(fabs(drift[i]) <= (most - least) * (1.0 + 1e-9));
        }
        plb_free(load);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const calls[])(feed_t *, int64_t) = {evaluate, learn, estimate};
    feed_t feed = feed_of(data, size);
    const uint32_t which = feed_below(&feed, sizeof calls / sizeof *calls);
    calls[which](&feed, feed_byte(&feed) < 32 ? feed_byte(&feed) % 24 : -1);
    return 0;
}
