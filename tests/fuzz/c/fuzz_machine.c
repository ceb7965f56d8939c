/* The model of a machine: parts by performance models, computing power of a tree of places, a
 * mapping to a tree or torus, rectangles of a grid, and the cores that ranks share.  All rows are
 * given out and no part is negative; the powers of a place's children add up to its own; a mapping
 * stays within its groups and does not raise the hop-bytes; rectangles fill the grid. */
#include <math.h>
#include <string.h>

#include "base/cores.h"
#include "feed.h"
#include "measure/measure.h"
#include "model/machine.h"
#include "place/strategy.h"
#include "plb.h"

enum { RANKS = 6, UPDATES = 80, POINTS = RANKS * (PLB_FPM_MOST + 1), PLACES = 40 };

/* Return a number above 0, mostly an ordinary one, within the domain of speeds and times. */
static double positive(feed_t *feed)
{
    const double x =
        feed_byte(feed) < 224 ? 0.25 + feed_byte(feed) / 8.0 : fabs(feed_double(feed));
    return x >= 1e-30 && x <= 1e30 ? x : 1.0;
}

static void must_answer(int ret, const plb_err_t *err, int64_t fail_at)
{
    MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err->text[0] != '\0');
}

/* ---- performance models --------------------------------------------------------------------- */

typedef struct models {
    int64_t start[RANKS + 1];
    double rows[POINTS], speed[POINTS];
} models_t;

static plb_fpm_t view(const models_t *m, int32_t p)
{
    return (plb_fpm_t){p, m->start, m->rows, m->speed};
}

/* Learn from measurements of any rows and times. */
static void learn(models_t m[2], int32_t p, feed_t *feed)
{
    const uint32_t n = 1 + feed_below(feed, UPDATES);
    for (uint32_t k = 0; k < n; k++) {
        int64_t rows[RANKS];
        double seconds[RANKS];
        for (int32_t i = 0; i < p; i++) {
            rows[i] = k > 0 && feed_byte(feed) < 16 ? 0 : 1 + feed_below(feed, 4096);
            rows[i] = feed_byte(feed) > 250 ? 1 + (feed_int(feed) & (1LL << 39)) : rows[i];
            seconds[i] = positive(feed) * (feed_bool(feed) ? (double)rows[i] : 1.0);
        }
        const plb_fpm_t now = view(&m[0], p);
        plb_fpm_update(&now, rows, seconds, m[1].start, m[1].rows, m[1].speed);
        m[0] = m[1];
    }
}

static void check_split(const plb_fpm_t *models, int64_t n, const int64_t *part, double seconds)
{
    int64_t left = n;
    double rows[RANKS], times[RANKS];
    for (int32_t i = 0; i < models->p; i++) {
        MUST(part[i] >= 0 && part[i] <= n);
        left -= part[i];
        rows[i] = (double)part[i];
    }
    MUST(left == 0 && isfinite(seconds) && seconds >= 0.0);
    plb_fpm_times(models, rows, times);
    for (int32_t i = 0; i < models->p; i++) {
        MUST(times[i] >= 0.0);
    }
}

static void divide_rows(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    static models_t m[2];
    memset(m, 0, sizeof m);
    int64_t part[RANKS];
    double seconds;
    const int32_t p = 1 + (int32_t)feed_below(feed, RANKS);
    learn(m, p, feed);
    if (feed_byte(feed) < 32) { /* a model that the user gives */
        m[0].speed[feed_below(feed, (uint32_t)m[0].start[p])] = feed_double(feed);
    } else {
        const plb_fpm_t learned = view(&m[0], p);
        MUST(plb_fpm_check(&learned, &err) == PLB_OK);
    }
    const plb_fpm_t models = view(&m[0], p);
    const int64_t n = feed_byte(feed) < 224 ? feed_below(feed, 100000) : feed_int(feed);
    plb_mem_fail_at(fail_at);
    int ret = plb_fpm_check(&models, &err);
    PLB_THEN(plb_fpm_split(&models, n, part, &seconds, &err));
    plb_mem_fail_at(-1);
    must_answer(ret, &err, fail_at);
    if (ret == PLB_OK) {
        check_split(&models, n, part, seconds);
    }
}

/* ---- power of places ------------------------------------------------------------------------ */

static void divide_power(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    int32_t parent[PLACES];
    double cpu[PLACES], comm[PLACES], power[PLACES], sum[PLACES] = {0.0};
    const plb_drum_t tree = {1 + feed_below(feed, PLACES), parent, cpu, comm};
    for (int32_t v = 0; v < tree.n; v++) {
        parent[v] = v == 0 ? -1 : (int32_t)feed_below(feed, (uint32_t)v);
        cpu[v] = feed_byte(feed) < 32 ? 0.0 : positive(feed);
        comm[v] = feed_byte(feed) < 32 ? feed_double(feed) : positive(feed);
    }
    if (feed_byte(feed) < 8) {
        parent[feed_below(feed, (uint32_t)tree.n)] = (int32_t)feed_int(feed);
    }
    const double w = feed_byte(feed) < 240 ? feed_byte(feed) / 255.0 : feed_double(feed);
    plb_mem_fail_at(fail_at);
    const int ret = plb_drum_power(&tree, w, power, &err);
    plb_mem_fail_at(-1);
    must_answer(ret, &err, fail_at);
    for (int64_t v = tree.n - 1; ret == PLB_OK && v >= 0; v--) {
        MUST(power[v] >= 0.0 && power[v] <= 1.0 + 1e-9);
        MUST(sum[v] == 0.0 || fabs(sum[v] - power[v]) <= 1e-9);
        sum[v > 0 ? parent[v] : 0] += v > 0 ? power[v] : 0.0;
    }
}

/* ---- a mapping to places -------------------------------------------------------------------- */

static void map_parts(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    plb_topology_t machine;
    int64_t size[PLB_TOPOLOGY_LEVELS + 1], m = 0;
    const int levels = (int)feed_below(feed, 6);
    for (int d = 0; d < levels; d++) {
        size[d] = feed_byte(feed) < 248 ? 1 + feed_below(feed, 4) : feed_int(feed);
    }
    const int valid =
        plb_topology_init(&machine, feed_bool(feed) ? PLB_TORUS : PLB_TREE, size, levels, &err);
    must_answer(valid, &err, -1);
    const int32_t p = valid == PLB_OK ? machine.n_places : 0;
    if (p < 1 || p > PLACES) {
        return;
    }
    int64_t *start = feed_starts(feed, (size_t)p, 6 * PLACES, &m);
    int32_t *to = feed_indices(feed, (size_t)m, 0, p),
            *group = feed_indices(feed, (size_t)p, 0, 3);
    double *bytes = feed_amounts(feed, (size_t)m), most = 0.0;
    int32_t place[PLACES], group_at[PLACES];
    const plb_flows_t flows = {start, to, bytes};
    for (int32_t a = 0; a < p; a++) {
        place[a] = (a + 1) % p;
        group_at[place[a]] = group[a];
    }
    const double before = plb_hop_bytes(&machine, &flows, place);
    plb_mem_fail_at(fail_at);
    int ret = plb_topology_map(&machine, &flows, group, place, &err);
    PLB_THEN(plb_topology_link(&machine, &flows, place, &most, &err));
    plb_mem_fail_at(-1);
    must_answer(ret, &err, fail_at);
    const double after = plb_hop_bytes(&machine, &flows, place);
    MUST(after <= before * (1.0 + 1e-9) && most <= after * (1.0 + 1e-9));
    for (int32_t a = 0; a < p; a++) { /* each place has one part, of its own group */
        MUST(place[a] >= 0 && place[a] < p && group_at[place[a]] == group[a]);
        group_at[place[a]] = -1;
    }
    PLB_FREE(start, to, group, bytes);
}

/* ---- rectangles ----------------------------------------------------------------------------- */

static void divide_grid(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    int64_t box[4 * PLACES], area = 0;
    int32_t column[PLACES];
    double found = 0.0, again = 0.0;
    const int32_t p = 1 + (int32_t)feed_below(feed, PLACES);
    const int64_t rows = 1 + feed_below(feed, 1000), cols = 1 + feed_below(feed, 1000);
    double *share = feed_amounts(feed, (size_t)p);
    plb_mem_fail_at(fail_at);
    int ret = plb_rectangles_columns(share, p, (double)rows, (double)cols, column, &found, &err);
    PLB_THEN(plb_rectangles_perimeter(share, column, p, (double)rows, (double)cols, &again, &err));
    PLB_THEN(plb_rectangles_place(share, column, p, rows, cols, box, &err));
    plb_mem_fail_at(-1);
    must_answer(ret, &err, fail_at);
    for (int32_t i = 0; ret == PLB_OK && i < p; i++) {
        const int64_t *b = box + 4 * i;
        MUST(0 <= b[0] && b[0] <= b[1] && b[1] <= rows && 0 <= b[2] && b[2] <= b[3] &&
             b[3] <= cols);
        area += (b[1] - b[0]) * (b[3] - b[2]);
    }
    MUST(ret != PLB_OK || (area == rows * cols && fabs(found - again) <= 1e-9 * found));
    plb_free(share);
}

/* ---- cores ---------------------------------------------------------------------------------- */

static void find_crowd(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    static plb_cores_t all[RANKS];
    plb_crowd_t crowd = {0};
    const int32_t p = 1 + (int32_t)feed_below(feed, RANKS);
    plb_cores_here(&all[0]);
    for (int32_t r = feed_bool(feed); r < p; r++) {
        memset(&all[r], 0, sizeof all[r]);
        all[r].host = feed_below(feed, 3);
        all[r].mask[feed_below(feed, 2)] = feed_byte(feed);
        all[r].group = feed_below(feed, 3);
        all[r].quota = all[r].group ? positive(feed) : 0.0;
    }
    plb_mem_fail_at(fail_at);
    const int ret = plb_cores_crowd(all, p, &crowd, &err);
    plb_mem_fail_at(-1);
    must_answer(ret, &err, fail_at);
    MUST(ret != PLB_OK || (crowd.n_ranks >= 0 && crowd.n_ranks <= p && crowd.n_cores >= 0.0));
    MUST(ret != PLB_OK || (crowd.words[0] != '\0') == (crowd.n_ranks > crowd.n_cores));
    for (int32_t r = 0; r < p; r++) {
        MUST(!plb_cores_capped(all, p, r) || all[r].group != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const calls[])(feed_t *, int64_t) = {divide_rows, divide_power, map_parts,
                                                       divide_grid, find_crowd};
    feed_t feed = feed_of(data, size);
    const uint32_t which = feed_below(&feed, sizeof calls / sizeof *calls);
    calls[which](&feed, feed_byte(&feed) < 32 ? feed_byte(&feed) % 16 : -1);
    return 0;
}
