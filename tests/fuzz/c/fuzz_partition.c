/* The partitioner: asks pylb's own partitioner any question, also with impossible values.  Every
 * vertex must get a part, and fixed vertices their own.  V-cycles must keep this, and must not
 * increase the cut if the parts were within their limits.  Sometimes a library answers instead,
 * rightly or wrongly. */
#include <string.h>

#include "feed.h"
#include "library.h"
#include "partition/partition.h"
#include "plb.h"

enum { MOST = 420, MOST_PARTS = 24 }; /* the partitioner coarsens more than 200 vertices */

static int32_t *narrow(feed_t *feed, size_t n)
{
    int32_t *out = feed_zeros(feed, n, sizeof *out);
    const uint8_t kind = feed_byte(feed);
    for (size_t i = 0; i < n; i++) {
        out[i] = kind < 224 ? feed_byte(feed) : (int32_t)feed_int(feed);
    }
    return out;
}

static int32_t *starts(feed_t *feed, size_t n, int32_t *total)
{
    int64_t sum, *wide = feed_starts(feed, n, 6 * MOST, &sum);
    int32_t *out = feed_zeros(feed, n + 1, sizeof *out);
    for (size_t i = 0; i <= n; i++) {
        out[i] = (int32_t)wide[i];
    }
    *total = (int32_t)sum;
    return out;
}

/* Make a symmetric graph: a ring with chords.  Sometimes an edge is wrong. */
static void add_graph(plb_question_t *q, feed_t *feed)
{
    const int32_t n = q->n_vertices, step = 1 + (int32_t)feed_below(feed, 12);
    int32_t *start = feed_zeros(feed, (size_t)n + 1, sizeof *start);
    int32_t *to = feed_zeros(feed, 4 * (size_t)n, sizeof *to), m = 0;
    for (int32_t v = 0; v < n; v++) {
        start[v] = m;
        for (int k = 0; k < 4 && n > 2; k++) {
            const int32_t far = k < 2 ? 1 : step, w = (v + (k % 2 ? far : n - far % n)) % n;
            if (w != v) {
                to[m++] = w;
            }
        }
    }
    start[n] = m;
    if (m > 0 && feed_byte(feed) % 8 == 0) {
        to[feed_below(feed, (uint32_t)m)] = (int32_t)feed_int(feed);
    }
    q->start = start;
    q->to = to;
    q->edge_weight = feed_bool(feed) ? narrow(feed, (size_t)m) : NULL;
}

static void add_nets(plb_question_t *q, feed_t *feed)
{
    int32_t pins;
    q->n_nets = (int32_t)feed_size(feed, MOST);
    q->net_start = starts(feed, (size_t)q->n_nets, &pins);
    q->pin = feed_indices(feed, (size_t)pins, 0, q->n_vertices);
    q->net_weight = feed_bool(feed) ? narrow(feed, (size_t)q->n_nets) : NULL;
}

static void draw(plb_question_t *q, feed_t *feed)
{
    const uint8_t parts = feed_byte(feed);
    q->n_vertices = (int32_t)feed_size(feed, MOST);
    q->n_parts = 1 + (int32_t)feed_size(feed, MOST_PARTS - 1);
    q->n_weights = 1;
    q->imbalance = feed_byte(feed) < 200 ? 1.03 : feed_double(feed);
    q->seed = (int32_t)feed_byte(feed);
    const size_t n = (size_t)q->n_vertices;
    q->weight = parts & 1 ? narrow(feed, n) : NULL;
    q->share = parts & 2 ? feed_amounts(feed, (size_t)q->n_parts) : NULL;
    if (parts & 4) {
        add_graph(q, feed);
    }
    if (n > 0 && (parts & 8 || !(parts & 4))) {
        add_nets(q, feed);
    }
    q->fixed = parts & 16 ? feed_indices(feed, n, -1, q->n_parts) : NULL;
    q->old = parts & 32 ? feed_indices(feed, n, -1, q->n_parts) : NULL;
    q->old_cost = parts & 64 ? narrow(feed, n) : NULL;
}

static void check(const plb_question_t *q, const int32_t *part)
{
    for (int32_t v = 0; v < q->n_vertices; v++) {
        MUST(part[v] >= 0 && part[v] < q->n_parts);
        MUST(q->fixed == NULL || q->fixed[v] < 0 || part[v] == q->fixed[v]);
    }
}

/* ---- a library ------------------------------------------------------------------------------ */

static void ask_library(const plb_question_t *q, feed_t *feed, int32_t *part)
{
    plb_err_t err = {0, ""};
    const uint8_t answer = feed_byte(feed) % 8;
    library_answer = answer < LIBRARY_RIGHT ? (library_answer_t)answer : LIBRARY_RIGHT;
    library_install();
    library_fill_table();
    const int ret = plb_partition_run(plb_partitioner_find("fuzzed"), q, part, &err);
    MUST(ret == PLB_OK || err.text[0] != '\0');
    MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE || ret == PLB_ERR_LIBRARY);
    if (ret == PLB_OK) {
        check(q, part);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    plb_err_t err = {0, ""};
    plb_question_t question = {0};
    const plb_question_t *q = &question;
    draw(&question, &feed);
    const int32_t cycles = (int32_t)feed_below(&feed, 3);
    const int64_t fail_at = feed_byte(&feed) < 32 ? feed_byte(&feed) : -1;
    int32_t *part = plb_calloc((size_t)q->n_vertices, sizeof *part);
    plb_mem_fail_at(fail_at);
    int ret = plb_partition_run(&plb_builtin, q, part, &err);
    PLB_THEN(plb_partition_improve(q, cycles, part, &err));
    PLB_THEN(plb_partition_repair(q, part, &err));
    plb_mem_fail_at(-1);
    MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err.text[0] != '\0');
    if (ret == PLB_OK) {
        check(q, part);
    }
    if (feed_byte(&feed) < 32) {
        ask_library(q, &feed, part);
    }
    plb_free(part);
    feed_free(&feed);
    return 0;
}
