/* The consensus protocol: a system of a few ranks (tests/c/consensus_model.h).  The input chooses
 * the order of its steps, and so of the arrival of messages.  After each step the promises of the
 * protocol must hold, and no run may end with ranks that still wait.  Some inputs instead call one
 * rank and one root in any order: each call succeeds or is refused with a message, and the numbers
 * of objects are right. */
#include <string.h>

#include "base/mem.h"
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

/* ---- any calls ------------------------------------------------------------------------------ */

static int64_t any_iteration(feed_t *feed)
{
    const uint8_t kind = feed_byte(feed);
    return kind < 224 ? kind % 24 : kind < 248 ? PLB_NEVER : -1;
}

static plb_ruling_t any_ruling(feed_t *feed)
{
    return (plb_ruling_t){(plb_ruling_kind_t)feed_below(feed, 5), feed_below(feed, 4),
                          any_iteration(feed)};
}

static int call_rank(plb_consensus_t *c, feed_t *feed, plb_actions_t *out, plb_err_t *err)
{
    int64_t slot = (int64_t)feed_below(feed, 10) - 1;
    const int64_t iteration = any_iteration(feed);
    const plb_ruling_t ruling = any_ruling(feed);
    plb_answer_t answer;
    switch (feed_below(feed, 12)) {
    case 0:
        return plb_consensus_remove(c, slot, out, err);
    case 1:
    case 2:
        return plb_consensus_reached(c, slot, out, err);
    case 3:
    case 4:
        return plb_consensus_ask(c, slot, &answer, err);
    case 5:
        return feed_byte(feed) < 64 ? plb_consensus_end(c, iteration, out, err) : PLB_OK;
    case 6:
        return plb_consensus_maximum(c, &ruling, out, err);
    case 7:
        return plb_consensus_balanced(c, out, err);
    case 8:
    case 9:
        return plb_consensus_stats(c, feed_bool(feed) ? c->seen + 1 : iteration, &ruling, out,
                                   err);
    case 10:
        if (feed_byte(feed) < 16) {
            plb_consensus_fail(c, out);
        }
        return PLB_OK;
    default:
        return plb_consensus_add(c, feed_bool(feed) ? c->contributed : iteration, &slot, out, err);
    }
}

static int call_root(plb_consensus_root_t *root, feed_t *feed, plb_err_t *err)
{
    plb_ruling_t out;
    const plb_consensus_root_t before = *root;
    const int64_t iteration = feed_bool(feed) ? root->seen + 1 : any_iteration(feed);
    const int ret = feed_bool(feed)
                        ? plb_consensus_root_stats(root, iteration, feed_below(feed, 4),
                                                   any_iteration(feed), &out, err)
                        : plb_consensus_root_maximum(root, root->round + (feed_byte(feed) < 32),
                                                     feed_below(feed, 48), &out, err);
    MUST(ret == PLB_OK || memcmp(&before, root, sizeof before) == 0);
    MUST(ret == PLB_OK || out.kind == PLB_RULING_NOTHING);
    return ret;
}

static void check_numbers(const plb_consensus_t *c, const plb_actions_t *out)
{
    int64_t n = 0, behind = 0;
    for (int64_t i = 0; i < c->capacity; i++) {
        n += c->reach[i] >= 0;
        behind += c->reach[i] >= 0 && c->reach[i] / 2 <= c->contributed;
    }
    MUST(c->n_objects == n && c->n_behind == behind && c->seen <= c->contributed);
    MUST(out->n >= 0 && out->n <= PLB_MAX_ACTIONS);
}

static void call(feed_t *feed)
{
    plb_err_t err = {0, ""};
    plb_consensus_t c;
    plb_consensus_root_t root;
    const int32_t lag = (int32_t)feed_below(feed, 4);
    const int64_t end = feed_bool(feed) ? PLB_NEVER : any_iteration(feed);
    plb_consensus_root_init(&root, 3, lag);
    MUST(plb_consensus_init(&c, lag, end, &err) == (end < 0 ? PLB_ERR_VALUE : PLB_OK));
    for (int n = 0; end >= 0 && n < 200 && (feed->at < feed->end || n < 20); n++) {
        plb_actions_t out = {.n = 0};
        const uint8_t rare = feed_byte(feed);
        err = (plb_err_t){0, ""};
        plb_mem_fail_at(rare < 16 ? 0 : -1);
        const int ret =
            rare < 192 ? call_rank(&c, feed, &out, &err) : call_root(&root, feed, &err);
        plb_mem_fail_at(-1);
        MUST(ret == PLB_OK || ret == PLB_ERR_STATE || ret == PLB_ERR_KEY || ret == PLB_ERR_VALUE ||
             (ret == PLB_ERR_NOMEM && rare < 16));
        MUST(ret == PLB_OK || err.text[0] != '\0');
        check_numbers(&c, &out);
    }
    plb_consensus_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    if (size > 0 &&
        data[size - 1] % 8 == 7) { /* the last byte: inputs of the system keep theirs */
        call(&feed);
        return 0;
    }
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
