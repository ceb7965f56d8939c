/* The decider and the advisor: any calls in any order, with any figures.  Each call succeeds or is
 * refused with a message; a refused call changes neither what the decider waits for nor its
 * receipts.  No receipt is lost: it is kept, or counted as dropped.  Each has a reason. */
#include <math.h>
#include <string.h>

#include "made.h"

enum { RANKS = 3, OBJECTS = 24, MOST_EDGES = 48, MOST_CALLS = 200 };

typedef struct machine {
    made_t made;
    plb_advisor_t advisor;
    int64_t iteration, key[OBJECTS], bytes[OBJECTS], memory[OBJECTS], limit[RANKS];
    int32_t rank[OBJECTS], new_rank[OBJECTS], src[MOST_EDGES], dst[MOST_EDGES];
    double load[OBJECTS], here[OBJECTS], speed[RANKS], edge_bytes[MOST_EDGES];
    plb_placing_t placing;
    bool advised; /* true: the advisor drives the decider; false: the harness does */
    plb_advisor_outcome_t outcome;

    /* A program whose hot spot moves over its objects, and sometimes jumps; ranks differ in speed.
     * false: the iterations have arbitrary figures. */
    bool runs;
    uint8_t has; /* HAS_...: which optional arrays its snapshots have */
    double place, step, height, growth, true_speed[RANKS], work[OBJECTS], drift[OBJECTS];
} machine_t;

enum { HAS_DRIFT = 1, HAS_WORK = 2, HAS_BYTES = 4, HAS_MEMORY = 8, HAS_EDGES = 16, HAS_HERE = 32 };

static void draw_program(machine_t *m, feed_t *feed)
{
    static const double speeds[] = {1.0, 1.0, 1.0, 0.5};
    m->has = feed_byte(feed);
    m->place = feed_byte(feed) % OBJECTS;
    m->step = feed_below(feed, 5) / 4.0;
    m->height = feed_below(feed, 16);
    m->growth = feed_below(feed, 4) / 64.0;
    for (int i = 0; i < OBJECTS; i++) {
        m->bytes[i] = (int64_t)feed_byte(feed) << feed_below(feed, 16);
        m->memory[i] = feed_byte(feed);
    }
    for (int r = 0; r < RANKS; r++) {
        m->true_speed[r] = speeds[feed_below(feed, 4)];
        m->limit[r] = 16 * feed_byte(feed);
    }
    for (int e = 0; e < MOST_EDGES; e++) {
        m->src[e] = (int32_t)feed_below(feed, OBJECTS);
        m->dst[e] = (int32_t)feed_below(feed, OBJECTS);
        m->edge_bytes[e] = 1e3 * feed_byte(feed);
    }
    if (feed_byte(feed) < 64) {
        plb_decider_limit(&m->made.decider, feed_int(feed));
    }
}

static int begin(machine_t *m, feed_t *feed, plb_err_t *err)
{
    PLB_PASS(made_init(&m->made, feed, RANKS, err));
    m->advised = m->made.how & 16;
    m->runs = m->made.how & 32;
    plb_advisor_init(&m->advisor, &m->made.decider, feed_bool(feed));
    for (int i = 0; i < OBJECTS; i++) {
        m->key[i] = 100 + i;
        m->rank[i] = i / (OBJECTS / RANKS);
    }
    draw_program(m, feed);
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

/* ---- a program ------------------------------------------------------------------------------ */

/* Return the work of object i: high near `place`, where the objects are on a circle. */
static double work_of(const machine_t *m, int i, double place)
{
    const double far = fabs(fmod(i - place + 1.5 * OBJECTS, OBJECTS) - 0.5 * OBJECTS);
    return 0.25 + m->height * fmax(1.0 - far / 6.0, 0.0) + m->growth * i;
}

/* Run the next iteration of the program: compute its loads, and return their statistics. */
static plb_iteration_t run_iteration(machine_t *m, feed_t *feed)
{
    double time[RANKS] = {0.0};
    const uint8_t odd = feed_byte(feed);
    plb_iteration_t out = {.iteration = ++m->iteration, .utilization = 0.5, .min = INFINITY};
    m->place = fmod(m->place + (odd < 16 ? OBJECTS / 3.0 : m->step), OBJECTS);
    m->growth *= 1.1;
    if (odd > 250) {
        m->true_speed[feed_below(feed, RANKS)] = 0.25 * (1 + feed_below(feed, 4));
    }
    for (int i = 0; i < OBJECTS; i++) {
        const double speed = m->true_speed[m->rank[i]];
        m->work[i] = work_of(m, i, m->place);
        m->drift[i] = (work_of(m, i, m->place + m->step) - m->work[i]) / speed;
        m->load[i] = m->here[i] = m->work[i] / speed;
        time[m->rank[i]] += m->load[i];
    }
    for (int r = 0; r < RANKS; r++) {
        out.max = fmax(out.max, time[r]);
        out.min = fmin(out.min, time[r]);
        out.total += time[r];
    }
    out.mean = out.total / RANKS;
    out.time = out.max;
    out.messages = m->has & HAS_EDGES ? MOST_EDGES : 0;
    out.bytes = 1000 * out.messages;
    return out;
}

static plb_database_t database(machine_t *m, feed_t *feed)
{
    if (!m->runs) {
        for (int i = 0; i < OBJECTS; i++) {
            m->load[i] = m->here[i] = feed_byte(feed) / 32.0;
            m->work[i] = feed_byte(feed) / 32.0;
            m->drift[i] = feed_byte(feed) / 256.0 - 0.25;
        }
    }
    const bool talks = m->has & HAS_EDGES, limited = m->has & HAS_MEMORY;
    return (plb_database_t){.snapshot = {.n_objects = OBJECTS,
                                         .n_ranks = RANKS,
                                         .n_components = 1,
                                         .load = m->load,
                                         .rank = m->rank,
                                         .key = m->key,
                                         .nbytes = m->has & HAS_BYTES ? m->bytes : NULL,
                                         .memory = limited ? m->memory : NULL,
                                         .memory_limit = limited ? m->limit : NULL,
                                         .n_edges = talks ? MOST_EDGES : 0,
                                         .edge_src = talks ? m->src : NULL,
                                         .edge_dst = talks ? m->dst : NULL,
                                         .edge_bytes = talks ? m->edge_bytes : NULL},
                            .here = m->has & HAS_HERE ? m->here : NULL,
                            .work = m->has & HAS_WORK ? m->work : NULL,
                            .drift = m->has & HAS_DRIFT ? m->drift : NULL};
}

/* Move the objects of an LB step. */
static plb_step_done_t move(machine_t *m, feed_t *feed)
{
    plb_step_done_t out = {.cost = feed_byte(feed) / 64.0, .moved = true, .given = true};
    for (int i = 0; i < OBJECTS; i++) {
        out.migrations += m->rank[i] != m->new_rank[i];
        out.bytes += m->rank[i] != m->new_rank[i] ? m->bytes[i] : 0;
        m->rank[i] = m->new_rank[i];
    }
    out.seconds_migration = 0.5 * out.cost;
    return out;
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
    const int ret =
        plb_decider_place(&m->made.decider, &db, m->new_rank, m->speed, &m->placing, err);
    if (ret == PLB_OK) {
        MUST(plb_snapshot_check_placement(&db.snapshot, m->new_rank, err) == PLB_OK);
    }
    return ret;
}

static int rebalance(machine_t *m, feed_t *feed, plb_err_t *err)
{
    const int64_t n[] = {OBJECTS, 0, 100000000, OBJECTS};
    PLB_PASS(plb_decider_choose(&m->made.decider, NULL, n[feed_below(feed, 4)], err));
    PLB_PASS(place(m, feed, err));
    PLB_PASS(plb_decider_placed(&m->made.decider, &m->placing, m->speed, err));
    const plb_step_done_t done = move(m, feed);
    return plb_decider_balanced(&m->made.decider, &done, err);
}

/* Run an iteration, and do all that the decider then asks for. */
static int go_on(machine_t *m, feed_t *feed, plb_err_t *err)
{
    double gain;
    plb_ask_t ask = PLB_ASK_NOTHING;
    plb_decider_t *d = &m->made.decider;
    const plb_iteration_t it = run_iteration(m, feed);
    PLB_PASS(plb_decider_observe(d, &it, err));
    const bool asked = m->made.trigger.verdict.balance;
    PLB_PASS(plb_decider_next(d, asked, true, &ask, err));
    if (ask == PLB_ASK_JUDGE) {
        PLB_PASS(plb_decider_judge(d, feed_byte(feed) / 16.0 - 1.0, err));
        PLB_PASS(plb_decider_next(d, asked, true, &ask, err));
    }
    if (ask == PLB_ASK_PREVIEW) {
        const plb_database_t db = database(m, feed);
        PLB_PASS(plb_decider_preview(d, &db, &gain, err));
        PLB_PASS(plb_decider_previewed(d, gain, &ask, err));
    }
    return ask == PLB_ASK_BALANCE ? rebalance(m, feed, err) : PLB_OK;
}

/* Run an iteration, and do all that the advisor then asks for. */
static int go_on_advised(machine_t *m, feed_t *feed, plb_err_t *err)
{
    double gain;
    plb_ask_t ask = PLB_ASK_NOTHING;
    plb_advisor_t *a = &m->advisor;
    const plb_iteration_t it = run_iteration(m, feed);
    const plb_advisor_outcome_t outcome = m->outcome;
    m->outcome = (plb_advisor_outcome_t){0};
    PLB_PASS(plb_advisor_observe(a, &it, &outcome, it.iteration, true, &ask, err));
    if (ask == PLB_ASK_PREVIEW) {
        const plb_database_t db = database(m, feed);
        PLB_PASS(plb_decider_preview(&m->made.decider, &db, &gain, err));
        PLB_PASS(plb_advisor_previewed(a, gain, it.iteration, &ask, err));
    }
    if (ask == PLB_ASK_BALANCE && a->places) {
        PLB_PASS(place(m, feed, err));
        const plb_step_done_t done = move(m, feed);
        PLB_PASS(plb_advisor_placed(a, &m->placing, m->speed, done.migrations, done.bytes, err));
        m->outcome = (plb_advisor_outcome_t){done.cost, feed_bool(feed) ? RANKS : 0};
    }
    return PLB_OK;
}

/* Learn from a sample of the objects, as for a distributed strategy. */
static int learn(machine_t *m, feed_t *feed, plb_err_t *err)
{
    int64_t at[OBJECTS], key[OBJECTS];
    int32_t rank[OBJECTS];
    const plb_database_t db = database(m, feed);
    const double fraction = plb_decider_sample(feed_int(feed) & INT64_MAX, RANKS);
    const int64_t n = plb_decider_sampled(m->key, OBJECTS, fraction, at);
    for (int64_t k = 0; k < n; k++) {
        key[k] = m->key[at[k]];
        rank[k] = m->rank[at[k]];
    }
    return plb_decider_learn(&m->made.decider, n, key, rank, m->here, db.work, m->speed, err);
}

/* ---- any calls ------------------------------------------------------------------------------ */

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
    plb_decider_t *d = &m->made.decider;
    plb_ask_t ask;
    double gain;
    const plb_iteration_t it = draw_iteration(m, feed);
    const plb_step_done_t done = draw_done(feed);
    const plb_database_t db = database(m, feed);
    switch (feed_below(feed, 14)) {
    case 13:
        return plb_decider_see(d, &db.snapshot, err);
    case 12:
        return learn(m, feed, err);
    case 0:
        return plb_decider_expect(d, feed_int(feed), seconds(feed), seconds(feed), err);
    case 1:
        return plb_decider_judge(d, seconds(feed) - 1.0, err);
    case 2:
        return plb_decider_preview(d, &db, &gain, err);
    case 3:
        return plb_decider_previewed(d, seconds(feed), &ask, err);
    case 4:
        return plb_decider_choose(d, NULL, feed_int(feed) & INT64_MAX, err);
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

static int64_t receipts_of(const plb_decider_t *d)
{
    return d->n_receipts + d->dropped.n;
}

static void check_receipts(const plb_decider_t *d)
{
    MUST(d->dropped.n == 0 || d->opt.keep > 0);
    MUST(d->dropped.n_lb_steps <= d->dropped.n && d->dropped.migrations >= 0);
    for (int64_t k = 0; k < d->n_receipts; k++) {
        MUST(plb_reason_words(d->receipts[k].verdict.reason)[0] != '\0');
    }
}

static void play(machine_t *m, feed_t *feed)
{
    const plb_decider_t *d = &m->made.decider;
    for (int n = 0; n < MOST_CALLS && (feed->at < feed->end || n < 20); n++) {
        plb_err_t err = {0, ""};
        const plb_decider_phase_t phase = d->phase;
        const int64_t receipts = receipts_of(d);
        const uint8_t rare = feed_byte(feed);
        if (rare == 0) {
            m->advised ? plb_advisor_abandon(&m->advisor) : plb_decider_abandon(&m->made.decider);
            continue;
        }
        const int64_t fail_at = rare < 24 ? rare % 8 : -1;
        plb_mem_fail_at(fail_at);
        const bool whole = m->runs && rare < 224;
        const int ret = whole ? (m->advised ? go_on_advised : go_on)(m, feed, &err)
                              : (m->advised ? advise : decide)(m, feed, &err);
        plb_mem_fail_at(-1);
        MUST(ret == PLB_OK || ret == PLB_ERR_STATE || ret == PLB_ERR_VALUE ||
             ret == PLB_ERR_INFEASIBLE || (ret == PLB_ERR_NOMEM && fail_at >= 0));
        MUST(ret == PLB_OK || err.text[0] != '\0');
        MUST(ret == PLB_OK || m->advised || whole ||
             (d->phase == phase && receipts_of(d) == receipts));
        MUST(receipts_of(d) >= receipts);
        check_receipts(d);
        if (ret != PLB_OK && whole) {
            m->advised ? plb_advisor_abandon(&m->advisor) : plb_decider_abandon(&m->made.decider);
        }
        plb_decider_settle(&m->made.decider);
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
    made_free(&m->made);
    plb_free(m);
    return 0;
}
