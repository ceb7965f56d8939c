/* The decider and the advisor: any calls in any order, with any figures.  Each call succeeds or is
 * refused with a message; a refused call changes neither what the decider waits for nor its
 * receipts. */
#include <string.h>

#include "anything.h"
#include "plb.h"

enum { RANKS = 3, OBJECTS = 12, MOST_CALLS = 200, MOST_PARAMS = 16, MOST_CANDIDATES = 24 };

typedef struct machine {
    plb_trigger_t trigger;
    plb_decider_t decider;
    plb_advisor_t advisor;
    double params[MOST_CANDIDATES][MOST_PARAMS], selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
    plb_candidate_strategy_t candidates[MOST_CANDIDATES];
    int64_t iteration, key[OBJECTS];
    int32_t rank[OBJECTS], new_rank[OBJECTS];
    double load[OBJECTS], here[OBJECTS], speed[RANKS];
    plb_placing_t placing;
    bool advised; /* true: the advisor drives the decider; false: the harness does */
} machine_t;

static void draw_params(feed_t *feed, const plb_param_t *table, int n, double *out)
{
    for (int k = 0; k < n; k++) {
        out[k] = feed_param(feed, table[k].fallback, table[k].least, table[k].most);
    }
}

static int begin(machine_t *m, feed_t *feed, plb_err_t *err)
{
    double params[MOST_PARAMS];
    int n_kinds = 0, n = 0;
    while (plb_triggers[n_kinds] != NULL) {
        n_kinds++;
    }
    const plb_trigger_kind_t *kind = plb_triggers[feed_below(feed, (uint32_t)n_kinds)];
    MUST(kind->n_params <= MOST_PARAMS);
    draw_params(feed, kind->params, kind->n_params, params);
    draw_params(feed, plb_selection_params, PLB_N_SELECTION, m->selection);
    draw_params(feed, plb_ledger_params, PLB_N_LEDGER, m->ledger);
    const bool selects = feed_bool(feed);
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL && (selects || n == 0); s++) {
        if ((*s)->library == NULL) {
            draw_params(feed, (*s)->params, (*s)->n_params, m->params[n]);
            m->candidates[n] = (plb_candidate_strategy_t){**s, m->params[n]};
            n++;
        }
    }
    const uint8_t how = feed_byte(feed);
    const plb_decider_options_t opt = {
        .n_ranks = RANKS,
        .candidates = m->candidates,
        .n = n,
        .selects = selects,
        .selection = m->selection,
        .ledger = m->ledger,
        .gives_up = how & 1,
        .learns = how & 2,
        .watches = how & 4,
        .network = {how & 8 ? 1e-5 : 0.0, how & 8 ? 1e-9 : 0.0},
    };
    m->advised = how & 16;
    PLB_PASS(plb_trigger_init(&m->trigger, kind, params, err));
    PLB_PASS(plb_decider_init(&m->decider, &opt, &m->trigger, err));
    plb_advisor_init(&m->advisor, &m->decider, feed_bool(feed));
    for (int i = 0; i < OBJECTS; i++) {
        m->key[i] = 100 + i;
        m->rank[i] = i / (OBJECTS / RANKS);
    }
    return PLB_OK;
}

/* Return a number of seconds, usually a valid one. */
static double seconds(feed_t *feed)
{
    return feed_byte(feed) < 240 ? feed_byte(feed) / 64.0 : feed_double(feed);
}

static plb_iteration_t draw_iteration(machine_t *m, feed_t *feed)
{
    plb_iteration_t out = {0};
    const double a = seconds(feed), b = seconds(feed), c = seconds(feed);
    out.iteration = feed_byte(feed) < 240 ? ++m->iteration : feed_int(feed);
    out.max = a > b ? (a > c ? a : c) : b > c ? b : c;
    out.min = a < b ? (a < c ? a : c) : b < c ? b : c;
    out.total = a + b + c;
    out.mean = out.total / RANKS;
    out.time = feed_byte(feed) < 240 ? out.max : seconds(feed);
    out.utilization = feed_byte(feed) < 240 ? feed_byte(feed) / 255.0 : feed_double(feed);
    out.messages = feed_byte(feed) < 240 ? feed_byte(feed) : feed_int(feed);
    out.bytes = feed_byte(feed) < 240 ? feed_byte(feed) : feed_int(feed);
    return out;
}

static plb_database_t database(machine_t *m, feed_t *feed)
{
    for (int i = 0; i < OBJECTS; i++) {
        m->load[i] = feed_byte(feed) / 32.0;
        m->here[i] = m->load[i];
    }
    return (plb_database_t){.snapshot = {.n_objects = OBJECTS,
                                         .n_ranks = RANKS,
                                         .n_components = 1,
                                         .load = m->load,
                                         .rank = m->rank,
                                         .key = m->key},
                            .here = feed_bool(feed) ? m->here : NULL};
}

static plb_step_done_t draw_done(feed_t *feed)
{
    return (plb_step_done_t){.migrations =
                                 feed_byte(feed) < 240 ? feed_byte(feed) : feed_int(feed),
                             .bytes = feed_byte(feed) < 240 ? feed_byte(feed) : feed_int(feed),
                             .seconds_migration = seconds(feed),
                             .cost = seconds(feed),
                             .moved = feed_bool(feed),
                             .given = feed_bool(feed)};
}

static int place(machine_t *m, feed_t *feed, plb_err_t *err)
{
    const plb_database_t db = database(m, feed);
    const int ret = plb_decider_place(&m->decider, &db, m->new_rank, m->speed, &m->placing, err);
    if (ret == PLB_OK) {
        MUST(plb_snapshot_check_placement(&db.snapshot, m->new_rank, err) == PLB_OK);
    }
    return ret;
}

static int advise(machine_t *m, feed_t *feed, plb_err_t *err)
{
    plb_ask_t ask;
    const plb_iteration_t it = draw_iteration(m, feed);
    const plb_advisor_outcome_t outcome = {seconds(feed), feed_byte(feed) % (RANKS + 1)};
    switch (feed_below(feed, 6)) {
    case 0:
        return plb_advisor_previewed(&m->advisor, seconds(feed), m->iteration, &ask, err);
    case 1:
        return plb_advisor_placed(&m->advisor, &m->placing, feed_bool(feed) ? m->speed : NULL,
                                  feed_byte(feed), feed_byte(feed), err);
    case 2:
        return plb_advisor_judge(&m->advisor, err);
    case 3:
        return place(m, feed, err);
    default:
        return plb_advisor_observe(&m->advisor, &it, &outcome, it.iteration, feed_bool(feed), &ask,
                                   err);
    }
}

static int decide(machine_t *m, feed_t *feed, plb_err_t *err)
{
    plb_decider_t *d = &m->decider;
    plb_ask_t ask;
    double gain;
    const plb_iteration_t it = draw_iteration(m, feed);
    const plb_step_done_t done = draw_done(feed);
    const plb_database_t db = database(m, feed);
    switch (feed_below(feed, 12)) {
    case 0:
        return plb_decider_expect(d, feed_int(feed), seconds(feed), seconds(feed), err);
    case 1:
        return plb_decider_judge(d, seconds(feed) - 1.0, err);
    case 2:
        return plb_decider_preview(d, &db, &gain, err);
    case 3:
        return plb_decider_previewed(d, seconds(feed), &ask, err);
    case 4:
        return plb_decider_choose(d, NULL, 0, err);
    case 5:
        return place(m, feed, err);
    case 6:
        return plb_decider_placed(d, &m->placing, feed_bool(feed) ? m->speed : NULL, err);
    case 7:
        return plb_decider_balanced(d, &done, err);
    case 8:
        return plb_decider_next(d, feed_bool(feed), feed_bool(feed), &ask, err);
    case 9:
        return plb_decider_network(d, (plb_network_t){seconds(feed), seconds(feed)}, err);
    default:
        return plb_decider_observe(d, &it, err);
    }
}

static void play(machine_t *m, feed_t *feed)
{
    const plb_decider_t *d = &m->decider;
    for (int n = 0; n < MOST_CALLS && (feed->at < feed->end || n < 20); n++) {
        plb_err_t err = {0, ""};
        const bool pending = d->pending, answered = d->answered;
        const int64_t receipts = d->n_receipts;
        const uint8_t rare = feed_byte(feed);
        if (rare == 0) {
            m->advised ? plb_advisor_abandon(&m->advisor) : plb_decider_abandon(&m->decider);
            continue;
        }
        const int64_t fail_at = rare < 24 ? rare % 8 : -1;
        plb_mem_fail_at(fail_at);
        const int ret = m->advised ? advise(m, feed, &err) : decide(m, feed, &err);
        plb_mem_fail_at(-1);
        MUST(ret == PLB_OK || ret == PLB_ERR_STATE || ret == PLB_ERR_VALUE ||
             (ret == PLB_ERR_NOMEM && fail_at >= 0));
        MUST(ret == PLB_OK || err.text[0] != '\0');
        MUST(ret == PLB_OK || m->advised ||
             (d->pending == pending && d->answered == answered && d->n_receipts == receipts));
        plb_decider_settle(&m->decider);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    plb_err_t err = {0, ""};
    machine_t *m = plb_calloc(1, sizeof *m);
    const int ret = begin(m, &feed, &err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && err.text[0] != '\0'));
    if (ret == PLB_OK) {
        play(m, &feed);
    }
    plb_decider_free(&m->decider);
    plb_trigger_free(&m->trigger);
    plb_free(m);
    return 0;
}
