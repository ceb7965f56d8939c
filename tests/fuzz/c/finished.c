#include "finished.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "partition/partition.h"

enum { MOST = 80, MOST_PARTS = 16, MOST_RANKS = 6 };

/* Check what a call has returned; fail_at: the allocation that was to fail, -1: none. */
static void check_code(int ret, int64_t fail_at, const plb_err_t *err)
{
    MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err->text[0] != '\0');
}

/* ---- new names ------------------------------------------------------------------------------ */

/* Draw how much of each new part was in which old part; some old parts may be invalid numbers. */
static int64_t draw_kept(feed_t *feed, int32_t k, int32_t *part, int32_t *old, double *kept)
{
    int64_t n = 0;
    const bool odd = feed_byte(feed) == 0;
    for (int32_t p = 0; p < k; p++) {
        for (int32_t q = 0; q < k; q++) {
            if (feed_byte(feed) < 64) {
                part[n] = p;
                old[n] = odd && feed_bool(feed) ? (int32_t)feed_int(feed) : q;
                kept[n++] = feed_byte(feed) % 8;
            }
        }
    }
    return n;
}

static void rename_parts(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    int32_t part[MOST_PARTS * MOST_PARTS], old[MOST_PARTS * MOST_PARTS], name[MOST_PARTS];
    double kept[MOST_PARTS * MOST_PARTS], share[MOST_PARTS], on_rank[MOST_RANKS * MOST_PARTS];
    bool fixed[MOST_PARTS], taken[MOST_PARTS] = {false};
    const uint8_t has = feed_byte(feed);
    const int32_t k = 1 + (int32_t)feed_below(feed, MOST_PARTS);
    plb_new_names_t in = {.n_parts = k,
                          .n_ranks = 1 + (int32_t)feed_below(feed, MOST_RANKS),
                          .share = has & 1 ? share : NULL,
                          .fixed = has & 2 ? fixed : NULL,
                          .part = part,
                          .old = old,
                          .kept = kept,
                          .on_rank = has & 4 ? on_rank : NULL};
    in.n_kept = draw_kept(feed, k, part, old, kept);
    for (int32_t p = 0; p < k; p++) {
        share[p] = 1.0 + feed_below(feed, 2);
        fixed[p] = feed_byte(feed) < 64;
    }
    for (int32_t i = 0; i < in.n_ranks * k; i++) {
        on_rank[i] = feed_byte(feed) % 4;
    }
    plb_mem_fail_at(fail_at);
    const int ret = plb_remap(&in, name, &err);
    plb_mem_fail_at(-1);
    check_code(ret, fail_at, &err);
    for (int32_t p = 0; ret == PLB_OK && p < k; p++) {
        MUST(name[p] >= 0 && name[p] < k && !taken[name[p]]);
        MUST(in.fixed == NULL || !fixed[p] || name[p] == p);
        MUST(in.share == NULL || share[p] == share[name[p]]);
        taken[name[p]] = true;
    }
}

/* ---- figures -------------------------------------------------------------------------------- */

/* Rows of objects first ... first + n - 1 of `all`, with the parts of all objects. */
typedef struct rows {
    int32_t narrow[7 * MOST], all;
    int64_t start[MOST + 1], to[6 * MOST], ghost[MOST], first, n_entries;
    int32_t narrow_start[MOST + 1], part[MOST], ghost_part[MOST];
    double weight[6 * MOST];
    plb_rows_t face;
    plb_places_t places;
} rows_t;

static void draw_rows(rows_t *self, feed_t *feed)
{
    const uint8_t how = feed_byte(feed);
    self->all = 1 + (int32_t)feed_below(feed, MOST);
    self->first = feed_below(feed, (uint32_t)self->all);
    const int64_t n = 1 + feed_below(feed, (uint32_t)(self->all - self->first));
    self->places = (plb_places_t){.first = self->first,
                                  .n = n,
                                  .n_parts = 1 + (int32_t)feed_below(feed, MOST_PARTS),
                                  .part = self->part,
                                  .ghost = self->ghost,
                                  .ghost_part = self->ghost_part};
    for (int64_t v = 0; v < self->all; v++) {
        const int32_t part = (int32_t)feed_below(feed, (uint32_t)self->places.n_parts);
        if (v >= self->first && v < self->first + n) {
            self->part[v - self->first] = part;
        } else {
            self->ghost[self->places.n_ghosts] = v;
            self->ghost_part[self->places.n_ghosts++] = part;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        self->start[i + 1] = self->start[i] + feed_below(feed, 7);
        self->narrow_start[i + 1] = (int32_t)self->start[i + 1];
    }
    self->n_entries = self->start[n];
    for (int64_t j = 0; j < self->n_entries; j++) {
        self->to[j] = feed_below(feed, (uint32_t)self->all);
        self->narrow[j] = (int32_t)self->to[j];
        self->weight[j] = feed_byte(feed);
    }
    const bool wide = how & 1;
    self->face = (plb_rows_t){.n = n,
                              .start = {wide ? (void *)self->start : self->narrow_start, wide},
                              .to = {wide ? (void *)self->to : self->narrow, wide},
                              .weight = how & 2 ? self->weight : NULL};
}

/* Rows in which one number is arbitrary are accepted, or refused with a message. */
static void spoil(rows_t *self, feed_t *feed)
{
    plb_err_t err = {0, ""};
    plb_scan_t scan;
    rows_t odd = *self;
    odd.face.start = (plb_ints_t){odd.start, 1};
    odd.face.to = (plb_ints_t){odd.to, 1};
    const bool at_start = feed_bool(feed) || self->n_entries == 0;
    const int64_t n = at_start ? self->face.n + 1 : self->n_entries;
    (at_start ? odd.start : odd.to)[feed_below(feed, (uint32_t)n)] = feed_int(feed);
    check_code(plb_rows_scan(&odd.face, "rows", self->n_entries, 0, self->all, &scan, &err), -1,
               &err);
}

static void evaluate_rows(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    plb_scan_t scan;
    int64_t boundary[MOST_PARTS], *pair = NULL, n_pairs = 0;
    double cut[MOST_PARTS], heavy[MOST_PARTS], sums[3 * MOST_PARTS], weight[2 * MOST], volume;
    double connectivity, cut_nets, all = 0.0;
    rows_t *rows = plb_calloc(1, sizeof *rows);
    draw_rows(rows, feed);
    const plb_places_t *places = &rows->places;
    MUST(plb_rows_scan(&rows->face, "rows", rows->n_entries, rows->first, rows->all, &scan,
                       &err) == PLB_OK);
    spoil(rows, feed);
    plb_mem_fail_at(fail_at);
    int ret = plb_quality_graph(&rows->face, places, cut, heavy, boundary, &volume, &pair,
                                &n_pairs, &err);
    PLB_THEN(plb_quality_nets(&rows->face, places, &connectivity, &cut_nets, &err));
    plb_mem_fail_at(-1);
    check_code(ret, fail_at, &err);
    for (int32_t p = 0; ret == PLB_OK && p < places->n_parts; p++) {
        MUST(cut[p] >= 0.0 && (double)boundary[p] <= cut[p]);
        all += cut[p];
    }
    MUST(ret != PLB_OK ||
         (volume <= all && (double)n_pairs <= volume && cut_nets <= connectivity));
    plb_free(pair);
    for (int i = 0; i < 2 * MOST; i++) {
        weight[i] = feed_byte(feed);
    }
    rows->part[0] = feed_byte(feed) < 240 ? rows->part[0] : (int32_t)feed_int(feed);
    check_code(plb_part_sums(rows->part, places->n, places->n_parts, weight, 2, sums, &err), -1,
               &err);
    plb_free(rows);
}

/* ---- moves and orders ----------------------------------------------------------------------- */

static void list_moves(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    plb_moves_t moves = {0};
    int64_t ids[MOST];
    const uint8_t has = feed_byte(feed);
    const int32_t k = 1 + (int32_t)feed_below(feed, MOST_PARTS);
    const int32_t p = 1 + (int32_t)feed_below(feed, MOST_RANKS);
    const int64_t n = feed_below(feed, MOST + 1);
    int32_t *part = feed_indices(feed, (size_t)n, has & 4 ? -1 : 0, has & 8 ? k + 1 : k);
    int32_t *old = feed_indices(feed, (size_t)n, -1, k);
    for (int64_t v = 0; v < n; v++) {
        ids[v] = feed_int(feed);
    }
    const plb_new_parts_t to = {.n = n,
                                .n_parts = k,
                                .n_ranks = p,
                                .part = part,
                                .old = has & 1 ? old : NULL,
                                .home = plb_own_part((int32_t)feed_below(feed, (uint32_t)p), p, k),
                                .first = 7,
                                .ids = has & 2 ? ids : NULL};
    plb_mem_fail_at(fail_at);
    const int ret = plb_moves_init(&moves, &to, &err);
    plb_mem_fail_at(-1);
    check_code(ret, fail_at, &err);
    for (int64_t i = 0; ret == PLB_OK && i < moves.n; i++) {
        MUST(part[moves.row[i]] == moves.part[i]);
        MUST(moves.rank[i] == plb_rank_of(moves.part[i], p, k));
        MUST(i == 0 || moves.row[i] > moves.row[i - 1]);
        MUST(i == 0 || part[moves.packed[i]] >= part[moves.packed[i - 1]]);
    }
    plb_moves_free(&moves);
    PLB_FREE(part, old);
}

/* The fill of a ring's matrix, eliminated in any order: each column has at most three entries. */
static void fill(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    int64_t start[MOST + 1] = {0}, column[MOST];
    int32_t to[2 * MOST], perm[MOST];
    const int32_t n = 3 + (int32_t)feed_below(feed, MOST - 2);
    for (int32_t v = 0; v < n; v++) {
        to[2 * v] = (v + 1) % n;
        to[2 * v + 1] = (v + n - 1) % n;
        start[v + 1] = 2 * v + 2;
        perm[v] = v;
    }
    for (int32_t v = n - 1; v > 0; v--) {
        const int32_t w = (int32_t)feed_below(feed, (uint32_t)v + 1), was = perm[v];
        perm[v] = perm[w];
        perm[w] = was;
    }
    if (feed_byte(feed) == 0) {
        perm[feed_below(feed, (uint32_t)n)] = (int32_t)feed_int(feed);
    }
    plb_mem_fail_at(fail_at);
    const int ret = plb_cholesky_fill(n, start, to, perm, column, &err);
    plb_mem_fail_at(-1);
    check_code(ret, fail_at, &err);
    for (int32_t v = 0; ret == PLB_OK && v < n; v++) {
        MUST(column[v] >= 1 && column[v] <= 3 && column[v] <= n - v);
    }
}

void finished_call(feed_t *feed, int64_t fail_at)
{
    static void (*const calls[])(feed_t *, int64_t) = {rename_parts, evaluate_rows, list_moves,
                                                       fill};
    calls[feed_below(feed, sizeof calls / sizeof *calls)](feed, fail_at);
}
