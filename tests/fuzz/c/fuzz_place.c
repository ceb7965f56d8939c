/* The strategies: every strategy on any snapshot.  No object is lost, fixed objects stay, memory
 * limits are kept, a refinement makes nothing worse by its own measure, and an evaluation agrees
 * with plain sums.  A library may answer wrongly, or fail.  A failing allocation is an error,
 * and nothing leaks. */
#include <math.h>
#include <string.h>

#include "feed.h"
#include "library.h"
#include "measure/measure.h"
#include "place/strategy.h"
#include "plb.h"

enum { MOST_PARAMS = 16 };

static void add_communication(plb_snapshot_t *s, feed_t *feed, uint32_t most)
{
    const int32_t n = (int32_t)s->n_objects;
    const uint32_t m = feed_size(feed, most);
    s->n_edges = m;
    s->edge_src = feed_indices(feed, m, 0, n);
    s->edge_dst = feed_indices(feed, m, 0, n);
    s->edge_bytes = feed_amounts(feed, m);
    s->edge_messages = feed_bool(feed) ? feed_amounts(feed, m) : NULL;
    const uint32_t c = feed_size(feed, most / 8);
    s->n_multicasts = c;
    s->multicast_src = feed_indices(feed, c, 0, n);
    s->multicast_start = feed_starts(feed, c, most, &s->n_pins);
    s->multicast_dst = feed_indices(feed, (size_t)s->n_pins, 0, n);
    s->multicast_bytes = feed_amounts(feed, c);
    s->multicast_messages = feed_bool(feed) ? feed_amounts(feed, c) : NULL;
}

/* Make memory limits.  Some just hold the present placement, some leave room, and some are
 * arbitrary. */
static int64_t *limits(feed_t *feed, const plb_snapshot_t *s)
{
    int64_t *out = feed_zeros(feed, (size_t)s->n_ranks, sizeof *out);
    const uint32_t kind = feed_below(feed, 4);
    for (int64_t i = 0; i < s->n_objects; i++) {
        if (__builtin_add_overflow(out[s->rank[i]], s->memory[i], &out[s->rank[i]])) {
            out[s->rank[i]] = INT64_MAX;
        }
    }
    for (int32_t r = 0; r < s->n_ranks; r++) {
        const int64_t more = feed_byte(feed);
        if (kind == 1 && out[r] < INT64_MAX / 4) {
            out[r] += 4 * more;
        } else if (kind == 2) {
            out[r] = 16 * more;
        } else if (kind == 3) {
            out[r] = feed_int(feed) & INT64_MAX;
        }
    }
    return out;
}

static void add_memory(plb_snapshot_t *s, feed_t *feed)
{
    const size_t n = (size_t)s->n_objects;
    s->memory = feed_bytes(feed, n);
    s->memory_limit = limits(feed, s);
    if (feed_byte(feed) % 4 == 0) {
        s->n_blocks = (int32_t)feed_below(feed, 9);
        s->block = feed_indices(feed, n, -1, s->n_blocks);
        s->block_bytes = feed_bytes(feed, (size_t)s->n_blocks);
    }
}

/* Make a snapshot of at most `n` objects, `p` ranks and `m` edges.  It may be invalid
 * (plb_snapshot_check). */
static void anything(plb_snapshot_t *s, feed_t *feed, uint32_t n, uint32_t p, uint32_t m)
{
    *s = (plb_snapshot_t){0};
    const uint8_t parts = feed_byte(feed), more = feed_byte(feed);
    s->n_objects = feed_size(feed, n);
    s->n_ranks = 1 + (int32_t)feed_size(feed, p - 1);
    s->n_components = more % 8 == 7 ? 1 + (int32_t)feed_below(feed, 3) : 1;
    n = (uint32_t)s->n_objects;
    p = (uint32_t)s->n_ranks;
    const uint32_t used = 1 + feed_below(feed, p);
    s->load = feed_amounts(feed, (size_t)n * (size_t)s->n_components);
    s->rank = feed_indices(feed, n, 0, (int32_t)used);
    if (parts & 1 && n > 0) {
        add_communication(s, feed, m);
    }
    s->nbytes = parts & 2 ? feed_bytes(feed, n) : NULL;
    s->migratable = parts & 4 ? feed_flags(feed, n) : NULL;
    s->speed = parts & 8 ? feed_amounts(feed, p) : NULL;
    for (uint32_t r = 0; s->speed != NULL && r < p; r++) {
        ((double *)s->speed)[r] += more & 16 ? 0.25 : 1e-30;
    }
    s->background = parts & 16 ? feed_amounts(feed, p) : NULL;
    s->node = parts & 32 ? feed_indices(feed, p, 0, 5) : NULL;
    if (parts & 64) {
        add_memory(s, feed);
    }
    if (parts & 128) {
        s->coords = feed_amounts(feed, 3 * (size_t)n);
    }
}

/* Choose a strategy.  One that needs a library asks one of library.h. */
static const plb_strategy_t *anything_strategy(feed_t *feed)
{
    const plb_strategy_t *own[32], *asks[32];
    uint32_t n = 0, n_asks = 0;
    const uint8_t which = feed_byte(feed);
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if ((*s)->library == NULL) {
            own[n++] = *s;
        } else if (plb_partitioner_find((*s)->library) != NULL) {
            asks[n_asks++] = *s;
        }
    }
    return which < 208 || n_asks == 0 ? own[which % n] : asks[which % n_asks];
}

/* ---- what must hold ------------------------------------------------------------------------- */

static bool within_limits(const plb_snapshot_t *s, const int32_t *rank)
{
    for (int32_t r = 0; s->memory_limit != NULL && r < s->n_ranks; r++) {
        int64_t left = s->memory_limit[r];
        bool *has = calloc((size_t)s->n_blocks + 1, sizeof *has);
        MUST(has != NULL);
        for (int64_t i = 0; i < s->n_objects; i++) {
            const int32_t block = s->block != NULL ? s->block[i] : -1;
            if (rank[i] == r) {
                left -= s->memory != NULL ? s->memory[i] : 0;
                left -= block >= 0 && !has[block] ? s->block_bytes[block] : 0;
                has[block >= 0 ? block : s->n_blocks] = true;
            }
        }
        free(has);
        if (left < 0 && (s->memory != NULL || s->block != NULL)) {
            return false;
        }
    }
    return true;
}

/* Return the value of a parameter; 0 if the strategy does not have it. */
static double param_of(const plb_strategy_t *strategy, const double *params, const char *name)
{
    double out = 0.0;
    for (int k = 0; k < strategy->n_params; k++) {
        out = strcmp(strategy->params[k].name, name) == 0 ? params[k] : out;
    }
    return out;
}

/* Compute the seconds of the slowest rank as the strategy measures them: with messages if it has
 * parameters for their costs.  A multicast counts as one message to each receiver. */
static double longest(const plb_strategy_t *strategy, const plb_snapshot_t *s,
                      const double *params, const int32_t *rank)
{
    const double alpha = param_of(strategy, params, "alpha");
    const double beta = param_of(strategy, params, "beta");
    double out = 0.0, *time = plb_malloc((size_t)s->n_ranks, sizeof *time);
    plb_snapshot_rank_times(s, rank, time);
    for (int64_t e = 0; e < s->n_edges; e++) {
        const double messages = s->edge_messages == NULL ? 1.0 : s->edge_messages[e];
        const int32_t from = rank[s->edge_src[e]];
        const bool leaves = from != rank[s->edge_dst[e]];
        time[from] += leaves ? alpha * messages + beta * s->edge_bytes[e] : 0.0;
    }
    for (int64_t e = 0; e < s->n_multicasts; e++) {
        const double messages = s->multicast_messages == NULL ? 1.0 : s->multicast_messages[e];
        const int32_t from = rank[s->multicast_src[e]];
        for (int64_t i = s->multicast_start[e]; i < s->multicast_start[e + 1]; i++) {
            const bool leaves = from != rank[s->multicast_dst[i]];
            time[from] += leaves ? alpha * messages + beta * s->multicast_bytes[e] : 0.0;
        }
    }
    for (int32_t r = 0; r < s->n_ranks; r++) {
        out = fmax(out, time[r]);
    }
    plb_free(time);
    return out;
}

static void check(const plb_strategy_t *strategy, const plb_snapshot_t *s, const double *params,
                  const int32_t *rank)
{
    plb_err_t err;
    /* no object is lost, fixed ones stay */
    MUST(plb_snapshot_check_placement(s, rank, &err) == PLB_OK);
    if (strategy->looks_at & PLB_LOOKS_MEMORY) {
        MUST(within_limits(s, rank));
    }
    /* `longest` does not know the costs of bytes that stay and of blocks away from home */
    const bool known =
        param_of(strategy, params, "gamma") + param_of(strategy, params, "delta") == 0.0;
    if (known && strategy->family == PLB_REFINEMENT && s->n_components == 1 &&
        within_limits(s, s->rank)) {
        const double before = longest(strategy, s, params, s->rank);
        MUST(longest(strategy, s, params, rank) <= before * (1.0 + 1e-9));
    }
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* Compare the evaluation of the placement with plain sums. */
static void evaluate(const plb_snapshot_t *s, const int32_t *rank)
{
    plb_err_t err = {0, ""};
    plb_evaluation_t e;
    double cut = 0.0;
    int64_t migrations = 0;
    const int ret = plb_evaluate(s, rank, &e, &err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && err.text[0] != '\0'));
    if (ret != PLB_OK) {
        return;
    }
    for (int64_t i = 0; i < s->n_edges; i++) {
        cut += rank[s->edge_src[i]] != rank[s->edge_dst[i]] ? s->edge_bytes[i] : 0.0;
    }
    for (int64_t i = 0; i < s->n_objects; i++) {
        migrations += rank[i] != s->rank[i];
    }
    MUST(near(e.cut, cut) && e.migrations == migrations && e.migration_bytes >= 0);
    MUST(near(e.cut + e.connectivity, e.bytes_node + e.bytes_network));
    MUST(near(e.hop_bytes, 2.0 * e.bytes_node + 4.0 * e.bytes_network));
    MUST(e.link_max <= e.sent_max * (1.0 + 1e-9) && e.memory_max >= 0);
    MUST((e.link_src < 0) == (e.link_dst < 0) && e.link_src < s->n_ranks);
    MUST(e.neighbours_mean <= (double)e.neighbours_max * (1.0 + 1e-9));
    MUST(e.neighbours_max < s->n_ranks);
}

/* Run the strategy with parameters from the feed.  If it gives a placement, check it. */
static void place(const plb_strategy_t *strategy, const plb_snapshot_t *in, feed_t *feed,
                  int64_t fail_at)
{
    plb_err_t err = {0, ""};
    double params[MOST_PARAMS];
    MUST(strategy->n_params <= MOST_PARAMS);
    for (int k = 0; k < strategy->n_params; k++) {
        const plb_param_t *p = &strategy->params[k];
        params[k] = feed_param(feed, p->fallback, p->least, p->most);
    }
    MUST(plb_params_check(strategy->params, strategy->n_params, params, &err) == PLB_OK);
    const plb_opts_t opts = {.params = params, .seed = feed_byte(feed)};
    int32_t *rank = plb_malloc((size_t)in->n_objects, sizeof *rank);
    memcpy(rank, in->rank, (size_t)in->n_objects * sizeof *rank);
    plb_mem_fail_at(fail_at);
    const int ret = strategy->run(strategy, in, &opts, rank, &err);
    plb_mem_fail_at(-1);
    if (ret == PLB_OK) {
        check(strategy, in, params, rank);
        evaluate(in, rank);
    } else {
        MUST(ret == PLB_ERR_INFEASIBLE || ret == PLB_ERR_VALUE ||
             (fail_at >= 0 && ret == PLB_ERR_NOMEM) ||
             (strategy->library != NULL && ret == PLB_ERR_LIBRARY));
        MUST(ret != PLB_ERR_INFEASIBLE || in->memory_limit != NULL);
        MUST(err.code == ret && err.text[0] != '\0');
    }
    plb_free(rank);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    plb_err_t err;
    plb_snapshot_t any;
    library_install();
    const plb_strategy_t *strategy = anything_strategy(&feed);
    const uint8_t fault = feed_byte(&feed);
    library_answer =
        strategy->library == NULL || fault < 224 ? LIBRARY_RIGHT : (library_answer_t)(fault % 2);
    anything(&any, &feed, 120, 40, 240);
    if (!strategy->takes_phases) { /* as in plb_strategy_place */
        any.block = NULL;
        any.n_components = 1;
    }
    const bool blind = strategy->looks_at & PLB_LOOKS_COORDS && any.coords == NULL;
    if (!blind && plb_snapshot_check(&any, &err) == PLB_OK) {
        place(strategy, &any, &feed, fault < 32 ? fault : -1);
    }
    feed_free(&feed);
    return 0;
}
