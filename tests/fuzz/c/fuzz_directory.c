/* The numbers of ids and the routes of messages, against a plain list.  After any calls the table
 * has exactly the entries of the list; a call that fails changes nothing.
 * A route has each item once, in order of ranks; what is gathered and scattered comes back. */
#include <string.h>

#include "comm/route.h"
#include "feed.h"
#include "plb.h"

enum { IDS = 96, MOST = 64, RANKS = 9, ITEMS = 120 };

typedef struct world {
    plb_table_t table;
    int32_t number[IDS]; /* of id_of(i); -1: none */
    int64_t stride;      /* ids are multiples of it: some have the same slot */
    int64_t index[MOST], id[MOST], n;
} world_t;

static int64_t id_of(const world_t *w, int64_t i)
{
    return (int64_t)((uint64_t)i * (uint64_t)w->stride);
}

/* Choose the ids of the next call; they may repeat. */
static void draw_ids(world_t *w, feed_t *feed)
{
    const uint32_t most = feed_bool(feed) ? 4 : MOST;
    const uint32_t first = feed_below(feed, IDS), step = feed_below(feed, 3);
    w->n = feed_below(feed, most + 1);
    for (int64_t k = 0; k < w->n; k++) {
        w->index[k] = step == 0 ? feed_below(feed, IDS) : (first + k * step) % IDS;
        w->id[k] = id_of(w, w->index[k]);
    }
}

static void check_all(const world_t *w)
{
    const plb_table_t *t = &w->table;
    int64_t known = 0, ids[IDS];
    for (int64_t i = 0; i < IDS; i++) {
        const int64_t id = id_of(w, i);
        int32_t number;
        plb_table_find(t, &id, 1, &number);
        MUST(number == w->number[i]);
        known += number >= 0;
    }
    MUST(t->n == known && plb_table_bytes(t) >= 0);
    plb_table_ids(t, ids);
    for (int64_t k = 0; k < known; k++) {
        const int32_t home = plb_home(ids[k], RANKS);
        int64_t i = 0;
        while (i < IDS && !(w->number[i] >= 0 && id_of(w, i) == ids[k])) {
            i++;
        }
        MUST(i < IDS && home >= 0 && home < RANKS);
    }
}

static void insert(world_t *w, feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    int32_t number[MOST];
    for (int64_t k = 0; k < w->n; k++) {
        number[k] = (int32_t)feed_below(feed, RANKS);
    }
    plb_mem_fail_at(fail_at);
    const int ret = plb_table_put(&w->table, w->id, number, w->n, &err);
    plb_mem_fail_at(-1);
    MUST(ret == PLB_OK || (ret == PLB_ERR_NOMEM && fail_at >= 0 && err.text[0] != '\0'));
    for (int64_t k = 0; ret == PLB_OK && k < w->n; k++) {
        w->number[w->index[k]] = number[k];
    }
}

static void take_out(world_t *w)
{
    int64_t known = 0;
    for (int64_t k = 0; k < w->n; k++) {
        known += w->number[w->index[k]] >= 0;
        w->number[w->index[k]] = -1;
    }
    MUST(plb_table_remove(&w->table, w->id, w->n) == known);
}

static void use_table(feed_t *feed)
{
    static const int64_t strides[] = {1, 10, 1LL << 32, -1, INT64_MAX, 1LL << 40};
    world_t *w = plb_calloc(1, sizeof *w);
    w->stride = strides[feed_below(feed, 6)];
    memset(w->number, -1, sizeof w->number);
    for (int k = 0; k < 60 && (feed->at < feed->end || k < 8); k++) {
        const uint8_t rare = feed_byte(feed);
        draw_ids(w, feed);
        if (rare < 160) {
            insert(w, feed, rare < 16 ? rare % 8 : -1);
        } else {
            take_out(w);
        }
        check_all(w);
    }
    plb_table_free(&w->table);
    plb_free(w);
}

/* ---- routes --------------------------------------------------------------------------------- */

static int32_t item_at(const plb_route_t *route, int64_t k)
{
    return route->order == NULL ? (int32_t)k : route->order[k];
}

static void check_route(const plb_route_t *route, const int32_t *dest, int64_t n)
{
    bool seen[ITEMS] = {false};
    MUST(route->start[0] == 0 && route->start[route->n_peers] == n);
    for (int32_t i = 0; i < route->n_peers; i++) {
        MUST(i == 0 || route->rank[i] > route->rank[i - 1]);
        MUST(route->start[i] < route->start[i + 1]);
        for (int64_t k = route->start[i]; k < route->start[i + 1]; k++) {
            const int32_t item = item_at(route, k);
            MUST(item >= 0 && item < n && !seen[item] && dest[item] == route->rank[i]);
            MUST(k == route->start[i] || item > item_at(route, k - 1));
            seen[item] = true;
        }
    }
}

/* Gather the items in the order of the route, and scatter them back. */
static void check_items(feed_t *feed, const plb_route_t *route, int64_t n)
{
    enum { LARGEST = 40 };
    static const int64_t sizes[] = {1, 2, 4, 8, 12, 16, 24, 32, 5, LARGEST};
    char from[ITEMS * LARGEST], sent[ITEMS * LARGEST], back[ITEMS * LARGEST];
    int64_t offset[ITEMS + 1] = {0};
    int32_t index[ITEMS];
    const int64_t bytes = sizes[feed_below(feed, 10)];
    const size_t all = (size_t)(n * bytes);
    for (int64_t k = 0; k < n; k++) {
        index[k] = item_at(route, k);
    }
    for (size_t i = 0; i < all; i++) {
        from[i] = (char)feed_byte(feed);
    }
    plb_gather(from, NULL, index, n, bytes, sent);
    plb_scatter(sent, NULL, index, n, bytes, back);
    MUST(memcmp(from, back, all) == 0);
    for (int64_t i = 0; i < n; i++) { /* the same bytes as items of different sizes */
        const int64_t left = n * bytes - offset[i], want = feed_below(feed, 9);
        offset[i + 1] = offset[i] + (want < left ? want : left);
    }
    memset(back, 0, sizeof back);
    plb_gather(from, offset, index, n, 1, sent);
    plb_scatter(sent, offset, index, n, 1, back);
    MUST(memcmp(from, back, (size_t)offset[n]) == 0);
}

static void use_route(feed_t *feed)
{
    plb_err_t err = {0, ""};
    plb_route_t route;
    const int64_t n = feed_below(feed, ITEMS + 1);
    const int32_t p = 1 + (int32_t)feed_below(feed, RANKS);
    int32_t *dest = feed_indices(feed, (size_t)n, 0, p + (feed_byte(feed) < 16));
    const int64_t fail_at = feed_byte(feed) < 32 ? feed_byte(feed) % 8 : -1;
    plb_mem_fail_at(fail_at);
    const int ret = plb_route_init(&route, dest, n, p, &err);
    plb_mem_fail_at(-1);
    bool valid = true;
    for (int64_t i = 0; i < n; i++) {
        valid = valid && dest[i] < p;
    }
    MUST(ret == (valid ? PLB_OK : PLB_ERR_RANGE) || (ret == PLB_ERR_NOMEM && fail_at >= 0));
    if (ret == PLB_OK) {
        check_route(&route, dest, n);
        check_items(feed, &route, n);
    }
    plb_route_free(&route);
    plb_free(dest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    feed_byte(&feed) < 192 ? use_table(&feed) : use_route(&feed);
    return 0;
}
