/* The end of a step: all ranks reduce their statistics to one record, and learn what to do; in an
 * LB step, rank 0 gathers the cells of all ranks (the load database) and places them. */
#include "lib/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- the cells of a rank -------------------------------------------------------------------- */

void pylb_cells_init(pylb_cells *cells)
{
    memset(cells, 0, sizeof *cells);
    cells->size = sizeof *cells;
    cells->n_components = 1;
}

/* X(array, entries of an item, number of items): the arrays that a rank sends, in this order,
 * padded to 8 bytes; d: loads of a cell. */
#define OF_CELLS(X)                                                                               \
    X(load, d, n)                                                                                 \
    X(key, 1, n)                                                                                  \
    X(nbytes, 1, n)                                                                               \
    X(memory, 1, n)                                                                               \
    X(coords, 3, n)                                                                               \
    X(shared, 3, n)                                                                               \
    X(migratable, 1, n)
#define ARRAYS(X)                                                                                 \
    OF_CELLS(X)                                                                                   \
    X(src, 1, n_edges)                                                                            \
    X(dst, 1, n_edges)                                                                            \
    X(edge_bytes, 1, n_edges)

enum {
#define X(array, width, count) HAS_##array,
    ARRAYS(X)
#undef X
};

typedef struct head {
    int64_t n, n_edges, n_components, has; /* has: bit HAS_x is 1 if the rank has given array x */
} head_t;

static int64_t rounded(int64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static int pack(const pylb_cells *c, char **out, int64_t *size, plb_err_t *err)
{
    const int64_t n = c->n, n_edges = c->n_edges, d = c->n_components;
    head_t head = {n, n_edges, d, 0};
    *size = (int64_t)sizeof head;
#define X(array, width, count)                                                                    \
    if (c->array != NULL) {                                                                       \
        head.has |= INT64_C(1) << HAS_##array;                                                    \
        *size += rounded((width) * (count) * (int64_t)sizeof *c->array);                          \
    }
    ARRAYS(X)
#undef X
    PLB_PASS_NEW0(*out, *size);
    memcpy(*out, &head, sizeof head);
    char *at = *out + sizeof head;
#define X(array, width, count)                                                                    \
    if (c->array != NULL && (count) > 0) {                                                        \
        const int64_t bytes = (width) * (count) * (int64_t)sizeof *c->array;                      \
        memcpy(at, c->array, (size_t)bytes);                                                      \
        at += rounded(bytes);                                                                     \
    }
    ARRAYS(X)
#undef X
    return PLB_OK;
}

/* ---- all cells, on rank 0 ------------------------------------------------------------------- */

typedef struct keyed {
    int64_t key;
    int64_t at; /* index of the cell in the order of the ranks (all cells of rank 0 first) */
} keyed_t;

typedef struct database {
    int64_t n, n_edges;
    int64_t *count; /* [p] number of cells of each rank */
    keyed_t *order; /* [n] all cells, sorted by key */
    int64_t n_components;
    double *load; /* [n * n_components] */
    double *coords, *edge_bytes;
    int64_t *key, *nbytes, *memory;
    uint8_t *migratable;
    int32_t *rank, *src, *dst, *placed;
    int64_t *shared;                 /* [n * 3] as in pylb_cells */
    int32_t n_blocks, *block, *home; /* [n], [n_blocks]: the shared data as in a snapshot */
    int64_t *block_bytes;
    bool homes; /* whether all shared data have a home */
} database_t;

/* Compare two numbers, or two keyed_t by their first field. */
static int by_key(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Set *out to the cells of a rank: pointers into the bytes that the rank has sent. */
static void unpack(const char *wire, pylb_cells *out)
{
    head_t h;
    memcpy(&h, wire, sizeof h);
    *out = (pylb_cells){.n = h.n, .n_edges = h.n_edges, .n_components = h.n_components};
    const int64_t n = h.n, n_edges = h.n_edges, d = h.n_components;
    const char *at = wire + sizeof h;
#define X(array, width, count)                                                                    \
    if (h.has >> HAS_##array & 1 && (count) > 0) {                                                \
        out->array = (const void *)at;                                                            \
        at += rounded((width) * (count) * (int64_t)sizeof *out->array);                           \
    }
    ARRAYS(X)
#undef X
}

/* Check that all ranks with cells gave the same kinds of arrays (arrays of edges may be missing on
 * some ranks).  *all: the numbers of all cells and edges, and the kinds of arrays. */
static int check_alike(const char *wire, const int64_t *size, int p, head_t *all, plb_err_t *err)
{
    int first = -1;
    *all = (head_t){0};
    for (int r = 0; r < p; wire += size[r++]) {
        head_t h;
        memcpy(&h, wire, sizeof h);
        all->n += h.n;
        all->n_edges += h.n_edges;
        all->n_components = h.n_components; /* the same on all ranks: see ask_decider */
        const int64_t edges = (int64_t)7 << HAS_src;
        PLB_FAIL_IF(
            h.n > 0 && first >= 0 && (h.has & ~edges) != (all->has & ~edges), err, PLB_ERR_VALUE,
            "one of ranks %d and %d gave an array that the other did not: expected the same "
            "arrays of cells on all ranks",
            first, r);
        if (h.n > 0 && first < 0) {
            first = r;
            all->has = h.has;
        }
    }
    return all->n > INT32_MAX ? PLB_FAIL(err, PLB_ERR_RANGE,
                                         "%lld cells: expected fewer than 2^31", (long long)all->n)
                              : PLB_OK;
}

/* Copy the cells of rank r.  where[i]: index of the rank's cell i in the cells sorted by key. */
static void copy_cells(database_t *self, const pylb_cells *c, int32_t r, const int32_t *where)
{
    const int64_t d = self->n_components;
    for (int64_t i = 0; i < c->n; i++) {
        self->rank[where[i]] = r;
#define X(array, width, count)                                                                    \
    if (self->array != NULL && c->array != NULL) {                                                \
        memcpy(self->array + where[i] * (int64_t)(width), c->array + i * (width),                 \
               (size_t)(width) * sizeof *c->array);                                               \
    }
        OF_CELLS(X)
#undef X
    }
}

/* Give the data that cells share the indices 0, 1, ..., in the order of the program's ids. */
static int number_blocks(database_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n = 0, first = -1;
    keyed_t *item = NULL;
    PLB_NEW_EACH(self->n, item, self->block, self->block_bytes, self->home);
    for (int64_t k = 0; k < self->n; k++) {
        self->block[k] = -1;
        if (self->shared[3 * k] >= 0) {
            item[n++] = (keyed_t){self->shared[3 * k], k};
        }
    }
    qsort(item, (size_t)n, sizeof *item, by_key);
    self->homes = true;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = item[i].at, *now = &self->shared[3 * k];
        if (first < 0 || self->shared[3 * first] != now[0]) {
            first = k;
            self->block_bytes[self->n_blocks] = now[1];
            self->home[self->n_blocks++] = now[2] > INT32_MAX ? INT32_MAX : (int32_t)now[2];
            self->homes = self->homes && now[2] >= 0;
        } else if (memcmp(now, &self->shared[3 * first], 3 * sizeof *now) != 0) {
            ret = PLB_FAIL(
                err, PLB_ERR_VALUE,
                "cells %lld and %lld share data %lld, but give different bytes or homes for it",
                (long long)self->key[first], (long long)self->key[k], (long long)now[0]);
            goto out;
        }
        self->block[k] = self->n_blocks - 1;
    }
out:
    plb_free(item);
    return ret;
}

static int find_key(const database_t *self, int64_t key, int32_t *out, plb_err_t *err)
{
    const int64_t low = plb_lower_bound(self->key, self->n, key);
    *out = (int32_t)low;
    return low < self->n && self->key[low] == key
               ? PLB_OK
               : PLB_FAIL(err, PLB_ERR_KEY, "an edge has key %lld, which no cell has",
                          (long long)key);
}

static int join(database_t *self, const char *wire, const int64_t *size, int p, plb_err_t *err)
{
    int ret = PLB_OK;
    head_t all;
    pylb_cells c;
    int32_t *where = NULL;
    int64_t at = 0;
    PLB_TRY(check_alike(wire, size, p, &all, err));
    const int64_t n = self->n = all.n;
    PLB_NEW(self->count, p);
    const int64_t d = self->n_components = all.n_components;
    PLB_NEW_EACH(n, self->order, self->rank, self->placed);
    all.has |= 1 << HAS_load | 1 << HAS_key;
#define X(array, width, count)                                                                    \
    if (all.has >> HAS_##array & 1) {                                                             \
        PLB_NEW(self->array, (width) * (count));                                                  \
    }
    OF_CELLS(X)
#undef X
    PLB_NEW_EACH(all.n_edges, self->src, self->dst, self->edge_bytes);
    PLB_NEW(where, all.n);
    const char *from = wire;
    for (int r = 0; r < p; from += size[r++]) {
        unpack(from, &c);
        self->count[r] = c.n;
        for (int64_t i = 0; i < c.n; i++, at++) {
            const int64_t key = c.key == NULL ? ((int64_t)r << 32) + i : c.key[i];
            self->order[at] = (keyed_t){key, at};
        }
    }
    qsort(self->order, (size_t)n, sizeof *self->order, by_key);
    for (int64_t k = 0; k < n; k++) {
        PLB_TRY(k > 0 && self->order[k].key == self->order[k - 1].key
                    ? PLB_FAIL(err, PLB_ERR_KEY, "key %lld is given twice",
                               (long long)self->order[k].key)
                    : PLB_OK);
        self->key[k] = self->order[k].key;
        where[self->order[k].at] = (int32_t)k;
    }
    from = wire;
    at = 0;
    for (int r = 0; r < p; from += size[r++]) {
        unpack(from, &c);
        copy_cells(self, &c, r, where + at);
        for (int64_t e = 0; e < c.n_edges; e++) {
            const int64_t k = self->n_edges++;
            PLB_TRY(find_key(self, c.src[e], &self->src[k], err));
            PLB_TRY(find_key(self, c.dst[e], &self->dst[k], err));
            self->edge_bytes[k] = c.edge_bytes[e];
        }
        at += c.n;
    }
    if (self->shared != NULL) {
        PLB_TRY(number_blocks(self, err));
    }
out:
    plb_free(where);
    return ret;
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* The part of a placement that a rank gets. */
typedef struct placed {
    int32_t *rank;    /* [n] owned: new rank of each cell of this rank */
    int64_t *receive; /* [p] owned: number of cells that come from each rank, including this one */
    double *speed;    /* [p] owned: speeds of the ranks, see plb_decider_place */
} placed_t;

/* The first part of rank 0's answer.  The second part has the number of cells and the speed of
 * each rank, and the new rank of each cell, in the order of the ranks. */
typedef struct reply {
    int32_t code;
    char text[512];
    plb_placing_t placing;
    double seconds; /* result of the question: seconds saved (preview) or needed (rehearse) */
    int64_t n, migrations, bytes; /* cells that were placed; those that move, and their bytes */
} reply_t;

/* What rank 0 computes from the database: a placement; the seconds per step that a new one would
 * save; or the seconds that the rank with the most bytes needs to send all its cells. */
typedef enum question { PLACE, PREVIEW, REHEARSE } question_t;

static int sending_time(const plb_lib_advisor_t *self, const database_t *db, double *seconds,
                        plb_err_t *err)
{
    int64_t *bytes, most = 0;
    const plb_network_t network = self->settings.network;
    const plb_lb_cost_t cost = {.alpha = network.alpha, .beta = network.beta};
    PLB_PASS_NEW0(bytes, self->ranks->size);
    for (int64_t k = 0; k < db->n && db->nbytes != NULL; k++) {
        int64_t *of_rank = &bytes[db->rank[k]];
        *of_rank += db->nbytes[k];
        most = *of_rank > most ? *of_rank : most;
    }
    plb_free(bytes);
    *seconds = plb_first_cost(&cost, 0, most, self->ranks->size);
    return PLB_OK;
}

/* Compute the answer on rank 0; `tail` gets its second part: count[p], speed[p], rank[n]. */
static int answer(plb_lib_advisor_t *self, question_t question, const char *wire, reply_t *reply,
                  char **tail, plb_err_t *err)
{
    int ret = PLB_OK;
    const int p = self->ranks->size;
    database_t db = {0};
    int64_t *limit = NULL;
    PLB_TRY(join(&db, wire, self->ranks->sizes, p, err));
    if (self->settings.memory_limit > 0) {
        PLB_FAIL_IF(db.memory == NULL && db.nbytes == NULL && db.n > 0, err, PLB_ERR_VALUE,
                    "memory_limit is set, but the cells have neither memory nor nbytes: expected "
                    "one of them");
        PLB_NEW(limit, p);
        for (int r = 0; r < p; r++) {
            limit[r] = self->settings.memory_limit;
        }
    }
    const plb_database_t all = {
        .snapshot = {.n_objects = db.n,
                     .n_ranks = p,
                     .n_components = (int32_t)db.n_components,
                     .load = db.load,
                     .rank = db.rank,
                     .key = db.key,
                     .nbytes = db.nbytes,
                     .memory = db.memory == NULL && limit != NULL ? db.nbytes : db.memory,
                     .memory_limit = limit,
                     .migratable = db.migratable,
                     .coords = db.coords,
                     .n_blocks = db.n_blocks,
                     .block = db.n_blocks > 0 ? db.block : NULL,
                     .block_bytes = db.n_blocks > 0 ? db.block_bytes : NULL,
                     .home = db.n_blocks > 0 && db.homes ? db.home : NULL,
                     .n_edges = db.n_edges,
                     .edge_src = db.src,
                     .edge_dst = db.dst,
                     .edge_bytes = db.edge_bytes},
        .here = db.load,
    };
    PLB_TRY(plb_snapshot_check(&all.snapshot, err));
    reply->n = question == PLACE ? db.n : 0;
    PLB_NEW0(*tail, 16 * (int64_t)p + 4 * reply->n);
    double *speed = (double *)(void *)(*tail + 8 * (int64_t)p);
    int32_t *rank = (int32_t *)(void *)(*tail + 16 * (int64_t)p);
    memcpy(*tail, db.count, 8 * (size_t)p);
    if (question == PREVIEW) {
        PLB_TRY(plb_decider_preview(&self->decider, &all, &reply->seconds, err));
    } else if (question == REHEARSE) {
        PLB_TRY(sending_time(self, &db, &reply->seconds, err));
    } else {
        PLB_TRY(plb_decider_place(&self->decider, &all, db.placed, speed, &reply->placing, err));
    }
    for (int64_t k = 0; k < reply->n; k++) {
        rank[db.order[k].at] = db.placed[k];
        if (db.placed[k] != db.rank[k]) {
            reply->migrations++;
            reply->bytes += db.nbytes == NULL ? 0 : db.nbytes[k];
        }
    }
out:
    PLB_FREE(db.count, db.order, db.load, db.coords, db.edge_bytes, db.key, db.nbytes, db.memory,
             db.migratable, db.rank, db.src, db.dst, db.placed, db.shared, db.block,
             db.block_bytes, db.home, limit);
    return ret;
}

/* Copy this rank's part of the answer, and count the cells that it will get from each rank. */
static int take(const plb_transport_t *ranks, const char *tail, placed_t *out, plb_err_t *err)
{
    const int p = ranks->size;
    const int64_t *count = (const int64_t *)(const void *)tail;
    const int32_t *rank = (const int32_t *)(const void *)(tail + 16 * (int64_t)p);
    PLB_PASS_NEW0_EACH(p, out->receive, out->speed);
    memcpy(out->speed, tail + 8 * (int64_t)p, 8 * (size_t)p);
    PLB_PASS_NEW(out->rank, count[ranks->rank]);
    for (int r = 0; r < p; rank += count[r++]) {
        for (int64_t i = 0; i < count[r]; i++) {
            out->receive[r] += rank[i] == ranks->rank;
        }
        if (r == ranks->rank && count[r] > 0) {
            memcpy(out->rank, rank, (size_t)count[r] * sizeof *rank);
        }
    }
    return PLB_OK;
}

/* Broadcast the answer of rank 0, or its error; `tail` is allocated on the other ranks. */
static int tell(plb_transport_t *ranks, reply_t *reply, char **tail, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_PASS(ranks->bcast(ranks, reply, sizeof *reply, err));
    PLB_FAIL_IF(reply->code != PLB_OK, err, reply->code, "%s", reply->text);
    const int64_t bytes = 16 * (int64_t)ranks->size + 4 * reply->n;
    if (ranks->rank != 0) {
        *tail = plb_malloc((size_t)bytes, 1);
        ret = *tail == NULL ? PLB_NO_MEMORY(*tail, bytes) : PLB_OK;
    }
    PLB_PASS(ranks->agree(ranks, ret, err));
    return ranks->bcast(ranks, *tail, bytes, err);
}

/* Gather the cells of all ranks, and let rank 0 answer.  *out: for PLACE; free its arrays, also
 * after an error.  Collective; an error is raised on all ranks. */
static int ask(plb_lib_advisor_t *self, question_t question, const pylb_cells *cells,
               reply_t *reply, placed_t *out, plb_err_t *err)
{
    plb_transport_t *ranks = self->ranks;
    int64_t bytes;
    char *mine = NULL, *wire = NULL, *tail = NULL;
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    *reply = (reply_t){0};
    int ret = pack(cells, &mine, &bytes, err);
    PLB_TRY(ranks->gather(ranks, mine, ret == PLB_OK ? bytes : ret, &wire, err));
    if (ranks->rank == 0) {
        const double gathered = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
        reply->code = answer(self, question, wire, reply, &tail, err);
        memcpy(reply->text, err->text, sizeof reply->text);
        reply->placing.seconds_statistics = gathered;
    }
    PLB_TRY(tell(ranks, reply, &tail, err));
    if (question == PLACE) {
        ret = ranks->agree(ranks, take(ranks, tail, out, err), err);
    }
out:
    PLB_FREE(mine, wire, tail);
    return ret;
}

/* ---- was the plan carried out? -------------------------------------------------------------- */

static void forget_exports(plb_lib_advisor_t *self)
{
    plb_free(self->exported);
    self->exported = NULL;
    self->n_exported = 0;
}

/* Whether the array of keys is there; a rank without cells needs none. */
static bool has_keys(const pylb_cells *cells)
{
    return cells->key != NULL || cells->n == 0;
}

/* Return whether this rank has carried out the plan, by the cells' keys: see pylb_rebalanced.
 * False if this rank had nothing to send. */
static bool has_exported(const plb_lib_advisor_t *self, const pylb_cells *cells)
{
    int64_t here = 0;
    if (self->exported == NULL || cells == NULL || !has_keys(cells)) {
        return self->rebalanced;
    }
    for (int64_t i = 0; i < cells->n; i++) {
        const int64_t low = plb_lower_bound(self->exported, self->n_exported, cells->key[i]);
        here += low < self->n_exported && self->exported[low] == cells->key[i];
    }
    return self->n_exported > 0 && 2 * here <= self->n_exported;
}

static int remember_exports(plb_lib_advisor_t *self, const pylb_cells *cells, const int32_t *rank,
                            plb_err_t *err)
{
    forget_exports(self);
    if (has_keys(cells)) {
        PLB_PASS_NEW(self->exported, cells->n);
        for (int64_t i = 0; i < cells->n; i++) {
            if (rank[i] != self->ranks->rank) {
                self->exported[self->n_exported++] = cells->key[i];
            }
        }
        qsort(self->exported, (size_t)self->n_exported, sizeof *self->exported, by_key);
    }
    return PLB_OK;
}

/* ---- a step --------------------------------------------------------------------------------- */

/* End the steps of this rank: other ranks that wait for it in a gather or exchange get an error.
 */
static int end(plb_lib_advisor_t *self, plb_err_t *err)
{
    self->over = true;
    plb_plan_free(&self->plan);
    return self->ranks->leave(self->ranks, err);
}

/* Make this rank's record of the step, whose load is `work` seconds.  Changes only self->now, and
 * the row of this step. */
static int sample_of(plb_lib_advisor_t *self, double work, plb_stats_t *out, plb_err_t *err)
{
    const pylb_cells *cells = self->cells;
    self->now = plb_lib_measures_nothing(self) ? 0 : plb_clock_real_ns(PLB_CLOCK_WALL);
    const int64_t ns = self->now - self->mark - self->moved_ns;
    const plb_advisor_sample_t sample = {
        .iteration = self->step,
        .n_cells = cells == NULL ? 0 : cells->n,
        .seconds = work,
        .time = plb_lib_measures_nothing(self) || ns < 0 ? 0.0 : 1e-9 * (double)ns,
        .cost = self->ahead ? 0.0 : self->cost, /* with "ahead", the next record contains both */
        .hidden = self->ahead ? 0.0 : self->hidden,
        .delay = plb_lib_loads_wait(self) || self->passed
                     ? 0.0
                     : fmax(1e-9 * (double)(plb_run_delay_ns() - self->delayed), 0.0),
        .rebalanced = !self->ahead && has_exported(self, cells),
    };
    PLB_PASS(plb_advisor_record(&sample, self->ranks->rank, out, err));
    out->arguments = self->fingerprint;
    if (cells != NULL && cells->n_components > 1) {
        plb_exact_t sum[PLB_MOST_PHASES] = {{{0}}};
        double phase[PLB_MOST_PHASES];
        const int64_t d = cells->n_components;
        for (int64_t i = 0; i < cells->n * d; i++) {
            plb_exact_add(&sum[i % d], cells->load[i]);
        }
        for (int64_t k = 0; k < d; k++) {
            phase[k] = plb_exact_value(&sum[k]);
        }
        plb_stats_set_phases(out, phase, d);
    }
    if (self->settings.record != NULL) {
        PLB_PASS_GROW(self->row, self->room, self->step + 1);
        self->row[self->step] = (plb_step_row_t){.load = work};
    }
    return PLB_OK;
}

void plb_lib_say_late(void *arg)
{
    const plb_lib_advisor_t *self = arg;
    fprintf(stderr, "pylb: rank %d has waited 10 s for the other ranks in step %lld\n",
            self->ranks->rank, (long long)self->step);
}

/* Called while this rank waits. */
static int look(void *arg)
{
    const plb_lib_advisor_t *self = arg;
    if (self->ranks->look != NULL) {
        self->ranks->look(self->ranks);
    }
    return PLB_OK;
}

static int why_broken(const plb_lib_advisor_t *self, plb_err_t *err)
{
    const plb_stats_t *all = &self->steps.all;
    PLB_FAIL_IF(all->failed_rank != INT64_MAX, err, PLB_ERR_STATE, "rank %lld failed in step %lld",
                (long long)all->failed_rank, (long long)all->iteration);
    PLB_FAIL_IF(all->n_ended > 0, err, PLB_ERR_STATE,
                "%lld of %d ranks closed their advisor before step %lld of this rank",
                (long long)all->n_ended, self->ranks->size, (long long)self->step);
    return PLB_FAIL(err, PLB_ERR_STATE,
                    "the ranks are in different steps (this one in step %lld, others up to %lld), "
                    "or were given different options, or cells with another n_components",
                    (long long)self->step, (long long)all->iteration);
}

/* Complete the reductions under way. */
static int complete(plb_lib_advisor_t *self, plb_err_t *err)
{
    bool done;
    PLB_PASS(plb_steps_leave(&self->steps, PLB_WAIT_PATIENCE_NS, look, self, &done, err));
    if (!done) {
        plb_lib_say_late(self);
        PLB_PASS(plb_steps_leave(&self->steps, -1, look, self, &done, err));
    }
    return PLB_OK;
}

/* End the steps of this rank, and complete the reductions under way.  Return `failed`, if it is an
 * error of this rank, else the error that ended the steps. */
static int end_steps(plb_lib_advisor_t *self, int failed, plb_err_t *err)
{
    const plb_err_t own = *err;
    PLB_PASS(end(self, err));
    PLB_PASS(complete(self, err));
    *err = own;
    return failed != PLB_OK ? failed : why_broken(self, err);
}

/* If pylb chooses the strategy, estimate the cost of the first LB step, like Python's Advisor:
 * seconds of the messages, plus the measured time of an LB step that places and moves nothing. */
static int foresee(plb_lib_advisor_t *self, plb_err_t *err)
{
    reply_t reply;
    const plb_settings_t *s = &self->settings;
    if (self->n_observed++ > 0 || self->cells == NULL || !self->decider.opt.selects || s->off) {
        return PLB_OK;
    }
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    PLB_PASS(ask(self, REHEARSE, self->cells, &reply, NULL, err));
    const double passed = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    double cost = reply.seconds + (plb_lib_measures_nothing(self) ? 0.0 : passed);
    PLB_PASS(self->ranks->bcast(self->ranks, &cost, sizeof cost, err));
    return plb_decider_expect(&self->decider, s->steps < 0 ? INT64_MAX : s->steps,
                              cost > 0.0 ? cost : NAN, NAN, err);
}

static int ask_decider(plb_lib_advisor_t *self, plb_ask_t *what, plb_err_t *err)
{
    const plb_stats_t *all = &self->steps.all;
    plb_iteration_t it;
    *what = PLB_ASK_NOTHING;
    PLB_FAIL_IF(self->n_observed > 0 && all->n_phases != self->n_phases, err, PLB_ERR_VALUE,
                "n_components of the cells is %lld in step %lld: expected the same as in earlier "
                "steps",
                (long long)(all->n_phases > 0 ? all->n_phases : 1), (long long)all->iteration);
    self->n_phases = all->n_phases;
    plb_advisor_iteration(all, &it);
    plb_wait_check_observe(&self->core.waiting, all, all->time_max);
    const char *word = plb_advisor_word(&self->core);
    if (word != NULL && self->ranks->rank == 0) {
        fprintf(stderr, "pylb: %s\n", word);
    }
    const double idle = plb_exact_value(&all->idle_sum) / (double)all->n_ranks;
    if (self->settings.record != NULL) {
        plb_step_row_t *row = &self->row[self->n_rows++];
        *row = (plb_step_row_t){it.time, it.max, it.mean, idle, it.utilization, it.min, row->load};
    }
    PLB_PASS(foresee(self, err));
    if (self->settings.off) {
        return PLB_OK;
    }
    const plb_advisor_outcome_t outcome = {all->cost_max, all->n_rebalanced};
    const bool may_preview = self->cells != NULL;
    const int64_t last = self->step + self->settings.ahead;
    PLB_PASS(plb_advisor_observe(&self->core, &it, &outcome, last, may_preview, what, err));
    if (*what != PLB_ASK_PREVIEW) {
        return PLB_OK;
    }
    reply_t reply;
    PLB_PASS(ask(self, PREVIEW, self->cells, &reply, NULL, err));
    return plb_advisor_previewed(&self->core, reply.seconds, last, what, err);
}

/* The answer of a rank's trigger, sent as the length (0, 1 or 2 bytes) of a message: the gather's
 * sizes then tell every rank all answers. */
enum { GO_ON, LB_STEP, FAILED };

/* Compare the answers of all ranks.  Collective. */
static int same_answer(plb_lib_advisor_t *self, int64_t mine, plb_err_t *err)
{
    static const char nothing[FAILED];
    static const char *const words[] = {"no LB step", "an LB step"};
    char *all = NULL;
    const int64_t *answer = self->ranks->sizes;
    const int ret = self->ranks->gather(self->ranks, nothing, mine, &all, err);
    plb_free(all);
    PLB_PASS(ret);
    for (int r = 0; r < self->ranks->size; r++) {
        PLB_FAIL_IF(answer[r] == FAILED, err, PLB_ERR_CALLBACK,
                    "the trigger has failed on rank %d in step %lld", r, (long long)self->step);
    }
    for (int r = 1; r < self->ranks->size; r++) {
        PLB_FAIL_IF(answer[r] != answer[0], err, PLB_ERR_VALUE,
                    "the trigger answers differently in step %lld: %s on rank 0, %s on "
                    "rank %d; expected the same answer on all ranks, computed only from the cycle",
                    (long long)self->step, words[answer[0]], words[answer[r]], r);
    }
    return PLB_OK;
}

/* Ask the decider.  If the trigger is a function of the program, also compare the answers of all
 * ranks: ranks with different answers would wait for each other forever.  Collective. */
static int observe(plb_lib_advisor_t *self, plb_ask_t *ask, plb_err_t *err)
{
    int ret = ask_decider(self, ask, err);
    if (!self->asks) {
        return ret;
    }
    const plb_err_t own = *err;
    const int said = same_answer(self,
                                 ret != PLB_OK             ? FAILED
                                 : *ask == PLB_ASK_BALANCE ? LB_STEP
                                                           : GO_ON,
                                 err);
    if (said != PLB_OK) {
        *err = ret != PLB_OK ? own : *err;
        ret = end_steps(self, ret != PLB_OK ? ret : said, err);
    }
    return ret;
}

/* Reduce the records of all ranks.  failed: PLB_OK, or an error of this rank in this step; then
 * all ranks get an error, and the step has not ended.  With a lag, the steps are over instead,
 * because the other ranks are already in later ones. */
static int exchange(plb_lib_advisor_t *self, double work, int failed, bool *have, plb_err_t *err)
{
    plb_stats_t mine;
    failed = failed == PLB_OK ? sample_of(self, work, &mine, err) : failed;
    const plb_err_t own = *err;
    if (failed != PLB_OK) {
        plb_stats_init(&mine);
        mine.iteration = self->step;
        mine.failed_rank = self->ranks->rank;
        mine.arguments = self->fingerprint;
        mine.n_ended = self->over;
    }
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    if (failed == PLB_OK || self->steps.lag == 0) { /* with a lag, end_steps waits */
        PLB_PASS(plb_steps_take(&self->steps, true, PLB_WAIT_PATIENCE_NS, look, self, have, err));
        if (!*have && plb_steps_is_due(&self->steps)) {
            plb_lib_say_late(self);
            PLB_PASS(plb_steps_take(&self->steps, true, -1, look, self, have, err));
        }
    }
    *err = own;
    const bool fatal = self->over || self->steps.lag > 0;
    if (plb_steps_broken(&self->steps) || (failed != PLB_OK && fatal)) {
        return end_steps(self, failed, err);
    }
    PLB_FAIL_IF(failed == PLB_OK && *have && self->steps.all.failed_rank != INT64_MAX, err,
                PLB_ERR_VALUE, "rank %lld failed in step %lld: expected no error on any rank",
                (long long)self->steps.all.failed_rank, (long long)self->step);
    return failed;
}

static int check_step(const plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    PLB_FAIL_IF(self->begun && self->with_cells != with_cells, err, PLB_ERR_STATE,
                "%s was called after steps %s cells: expected the same call in every "
                "step",
                with_cells ? "pylb_advise_cells" : "pylb_advise", with_cells ? "without" : "with");
    PLB_FAIL_IF(self->started != 0 || self->moving != 0, err, PLB_ERR_STATE,
                "%s is still open: expected %s before the step ends",
                self->started != 0 ? "pylb_start" : "pylb_rebalance_begin",
                self->started != 0 ? "pylb_stop" : "pylb_rebalance_end");
    PLB_FAIL_IF(self->plan.moves != NULL && !self->ahead, err, PLB_ERR_STATE,
                "arrays are still on their way: expected pylb_plan_migrate_end before the step "
                "ends");
    return PLB_OK;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Make this rank's part of the plan.  If nothing migrates, there is no plan. */
static int plan_of(plb_lib_advisor_t *self, const pylb_cells *cells, const reply_t *reply,
                   const placed_t *a, plb_err_t *err)
{
    const int64_t n = reply->migrations;
    PLB_PASS(plb_advisor_placed(&self->core, &reply->placing, a->speed, n, reply->bytes, err));
    if (n == 0) {
        return PLB_OK;
    }
    PLB_PASS(plb_plan_init(&self->plan, self, a->rank, cells->n, a->receive, n, err));
    return remember_exports(self, cells, a->rank, err);
}

/* Make the plan.  If one rank fails, all ranks get an error, and no rank has a plan. */
static int make_plan(plb_lib_advisor_t *self, const pylb_cells *cells, plb_err_t *err)
{
    placed_t a = {0};
    reply_t reply;
    int ret = ask(self, PLACE, cells, &reply, &a, err);
    if (plb_lib_measures_nothing(self)) {
        reply.placing.seconds_statistics = reply.placing.seconds_strategy = 0.0;
    }
    if (ret == PLB_OK) { /* the same on all ranks */
        ret = self->ranks->agree(self->ranks, plan_of(self, cells, &reply, &a, err), err);
    }
    if (ret != PLB_OK) {
        plb_advisor_abandon(&self->core);
        plb_plan_free(&self->plan);
        forget_exports(self);
    }
    PLB_FREE(a.rank, a.receive, a.speed);
    return ret;
}

/* ---- the calls that end a step -------------------------------------------------------------- */

/* End a step, and make the plan if one is due.  self->cells: the cells of this rank; work: its
 * seconds; failed: PLB_OK, or an error in its arguments.  If this fails before all ranks have
 * ended the step, nothing has changed. */
static int step(plb_lib_advisor_t *self, double work, bool with_cells, int failed, plb_ask_t *ask,
                plb_err_t *err)
{
    bool have = false;
    *ask = PLB_ASK_NOTHING;
    PLB_FAIL_IF(self->over, err, PLB_ERR_STATE,
                "there are no more steps: a rank has failed or left, or "
                "the ranks were in different steps");
    if (failed == PLB_OK) {
        failed = check_step(self, with_cells, err);
    }
    const bool measures = self->begun && plb_lib_measures_work(self);
    const int64_t now = plb_clock_real_ns(measures ? self->clock : PLB_CLOCK_MPI);
    if (!self->begun) {
        const plb_err_t own = *err;
        const int begun = plb_lib_advisor_begin(self, with_cells, err);
        self->over = begun != PLB_OK;
        if (self->steps.net == NULL) {
            const plb_err_t why = *err;
            PLB_PASS(end(self, err));
            *err = why;
            return begun;
        }
        *err = begun == PLB_OK ? own : *err;
        failed = begun == PLB_OK ? failed : begun;
        if (self->ranks->rank == 0 && *self->crowd.words != '\0') {
            fprintf(stderr, "pylb: %s and wait for one another\n", self->crowd.words);
        }
    }
    if (!with_cells && !self->told && plb_lib_measures_work(self)) {
        work = 1e-9 * (double)(now - self->worked);
    }
    PLB_PASS(exchange(self, work, failed, &have, err));
    const bool keeps = self->ahead; /* with "ahead", keep the plan for one more step */
    if (!keeps) {
        forget_exports(self);
        plb_plan_free(&self->plan);
    }
    int ret = have ? observe(self, ask, err) : PLB_OK;
    if (ret == PLB_OK && *ask == PLB_ASK_BALANCE && with_cells) {
        ret = make_plan(self, self->cells, err);
    }
    /* What was measured in a step belongs to it once all ranks have ended it. */
    self->step++;
    self->mark = self->now;
    self->delayed = plb_lib_loads_wait(self) ? 0 : plb_run_delay_ns();
    self->work = 0.0;
    self->cost = keeps ? self->cost : 0.0;
    self->hidden = keeps ? self->hidden : 0.0;
    self->moved_ns = 0;
    self->rebalanced = keeps && self->rebalanced;
    self->told = self->passed = false;
    self->ahead = self->settings.ahead != 0 && *ask == PLB_ASK_BALANCE && self->core.due;
    plb_lib_begin_work(self);
    return ret;
}

int pylb_advise(pylb_advisor *lb, int *rebalance)
{
    PLB_LIB_BEGIN(self, err, lb);
    plb_ask_t ask;
    const int failed =
        rebalance == NULL ? PLB_FAIL(err, PLB_ERR_VALUE, "rebalance is NULL") : PLB_OK;
    PLB_PASS(step(self, self->work, false, failed, &ask, err));
    *rebalance = ask == PLB_ASK_BALANCE;
    return PLB_OK;
}

static int check_cells(const pylb_cells *cells, pylb_plan **plan, double *sum, plb_err_t *err)
{
    PLB_FAIL_IF(plan == NULL, err, PLB_ERR_VALUE, "plan is NULL");
    /* Check the counts of a rank's cells and edges, and that no required array is missing. */
    PLB_FAIL_IF(cells == NULL || cells->size != sizeof *cells, err, PLB_ERR_VALUE,
                "cells is %s: expected a struct that pylb_cells_init() prepared",
                cells == NULL ? "NULL" : "of another size");
    PLB_FAIL_IF(cells->n < 0 || cells->n > INT32_MAX || cells->n_edges < 0 ||
                    cells->n_edges > INT32_MAX,
                err, PLB_ERR_VALUE,
                "n and n_edges of the cells are %lld and %lld: expected 0 ... 2^31 - 1",
                (long long)cells->n, (long long)cells->n_edges);
    PLB_FAIL_IF(cells->n_components < 1 || cells->n_components > PLB_MOST_PHASES, err,
                PLB_ERR_VALUE, "n_components of the cells is %lld: expected 1 ... %d",
                (long long)cells->n_components, PLB_MOST_PHASES);
    PLB_FAIL_IF(cells->n > 0 && cells->load == NULL, err, PLB_ERR_VALUE,
                "load of the cells is NULL: expected %lld values",
                (long long)(cells->n * cells->n_components));
    PLB_FAIL_IF(cells->n_edges > 0 && (cells->src == NULL || cells->dst == NULL ||
                                       cells->edge_bytes == NULL || cells->key == NULL),
                err, PLB_ERR_VALUE,
                "the cells have %lld edges: expected key, src, dst and edge_bytes",
                (long long)cells->n_edges);
    return plb_advisor_load(cells->load, cells->n * cells->n_components, sum, err);
}

int pylb_advise_cells(pylb_advisor *lb, const pylb_cells *cells, pylb_plan **plan)
{
    if (plan != NULL) {
        *plan = NULL; /* no old plan for a program that goes on after an error */
    }
    PLB_LIB_BEGIN(self, err, lb);
    plb_ask_t ask;
    double sum = 0.0;
    int ret = check_cells(cells, plan, &sum, err);
    self->cells = ret == PLB_OK ? cells : NULL;
    ret = step(self, sum, true, ret, &ask, err);
    self->cells = NULL;
    if (ret == PLB_OK) {
        *plan = ask != PLB_ASK_BALANCE || self->plan.lb == NULL ? NULL : &self->plan;
    }
    return ret;
}

/* ---- the end -------------------------------------------------------------------------------- */

int plb_lib_advisor_begin_leaving(plb_lib_advisor_t *self, plb_err_t *err)
{
    plb_stats_t mine;
    if (self->leaves) {
        return PLB_OK;
    }
    self->leaves = true;
    plb_stats_init(&mine);
    mine.iteration = self->step;
    mine.arguments = self->fingerprint;
    mine.n_ended = mine.n_ranks = 1;
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    return self->ranks->leave(self->ranks, err);
}

int plb_lib_advisor_leave(plb_lib_advisor_t *self, plb_err_t *err)
{
    plb_ask_t ask;
    bool have = true;
    int ret = PLB_OK;
    PLB_PASS(plb_lib_advisor_begin_leaving(self, err));
    while (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
        /* Take the next record now, even if the lag would allow to take it later. */
        PLB_PASS(
            plb_steps_take(&self->steps, false, PLB_WAIT_PATIENCE_NS, look, self, &have, err));
        if (!have && plb_steps_under_way(&self->steps) > 0) {
            fprintf(stderr,
                    "pylb: rank %d has waited 10 s for the other ranks to close an advisor before "
                    "step %lld: all ranks must close several advisors in the same order\n",
                    self->ranks->rank, (long long)self->step);
            PLB_PASS(plb_steps_take(&self->steps, false, -1, look, self, &have, err));
        }
        if (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
            /* no same_answer(): answers have no effect here, and other ranks may make steps */
            ret = ret != PLB_OK ? ret : ask_decider(self, &ask, err);
            plb_advisor_abandon(&self->core); /* cancel an LB step that is due */
        }
    }
    PLB_PASS(complete(self, err));
    return ret == PLB_OK && plb_steps_broken(&self->steps) ? why_broken(self, err) : ret;
}
