/* The consensus protocol: a system of a few ranks (tests/c/consensus_model.h).  The input chooses
 * the order of its steps, and so of the arrival of messages.  After each step the promises of the
 * protocol must hold, and no run may end with ranks that still wait. */
#include "consensus_model.h"
#include "feed.h"

static model_t draw(feed_t *feed)
{
    model_t m = {.ranks = 1 + (int)feed_below(feed, 6)};
    m.objects = 1 + (int)feed_below(feed, m.ranks > 5 ? 2 : 3);
    m.iterations = 1 + (int)feed_below(feed, 14);
    m.ring = feed_bool(feed);
    m.lag = (int)feed_below(feed, 4);
    m.blocked = m.lag > 0 && feed_bool(feed);
    m.central = m.lag == 0 && feed_below(feed, 4) == 0;
    m.known_end = feed_bool(feed);
    m.changes = (int)feed_below(feed, 7);
    m.early = feed_below(feed, 4) == 0 ? (int)feed_below(feed, (uint32_t)m.iterations + 1) : 0;
    m.migrate = m.known_end && !m.blocked && m.early == 0 && feed_bool(feed);
    m.fails = feed_below(feed, 6) == 0;
    m.churn =
        m.known_end && !m.blocked && feed_below(feed, 4) == 0 ? 1 + (int)feed_below(feed, 4) : 0;
    for (int i = 0; i < MAX_ITERATIONS + 2; i++) {
        m.script[i] = PLB_WISH_NONE;
    }
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    const model_t m = draw(&feed);
    static system_t s;
    step_t steps[MAX_STEPS];
    plb_err_t err = {0, ""};
    int n;
    system_init(&m, &s);
    while ((n = system_steps(&m, &s, steps)) > 0) {
        const step_t step = steps[feed_below(&feed, (uint32_t)n)];
        if (system_take(&m, &s, step, NULL, &err) != PLB_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }
    MUST(system_check_end(&m, &s, &err) == PLB_OK);
    return 0;
}
