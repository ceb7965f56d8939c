#include "lib/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ints.h"
#include "base/mem.h"

/* ---- the cells of a rank -------------------------------------------------------------------- */

void pylb_cells_init(pylb_cells *cells)
{
    memset(cells, 0, sizeof *cells);
    cells->size = sizeof *cells;
}

int plb_cells_check(const pylb_cells *cells, plb_err_t *err)
{
    PLB_FAIL_IF(cells == NULL || cells->size != sizeof *cells, err, PLB_ERR_VALUE,
                "cells is %s: expected a struct that pylb_cells_init() prepared",
                cells == NULL ? "NULL" : "of another size");
    PLB_FAIL_IF(cells->n < 0 || cells->n > INT32_MAX || cells->n_edges < 0 ||
                    cells->n_edges > INT32_MAX,
                err, PLB_ERR_VALUE,
                "n and n_edges of the cells are %lld and %lld: expected 0 ... 2^31 - 1",
                (long long)cells->n, (long long)cells->n_edges);
    PLB_FAIL_IF(cells->n > 0 && cells->load == NULL, err, PLB_ERR_VALUE,
                "load of the cells is NULL: expected %lld values", (long long)cells->n);
    PLB_FAIL_IF(cells->n_edges > 0 && (cells->src == NULL || cells->dst == NULL ||
                                       cells->edge_bytes == NULL || cells->key == NULL),
                err, PLB_ERR_VALUE,
                "the cells have %lld edges: expected key, src, dst and edge_bytes",
                (long long)cells->n_edges);
    return PLB_OK;
}

/* X(array, its length): the arrays that a rank sends, in this order, padded to 8 bytes. */
#define ARRAYS(X)                                                                                 \
    X(load, n)                                                                                    \
    X(key, n)                                                                                     \
    X(nbytes, n)                                                                                  \
    X(memory, n)                                                                                  \
    X(coords, 3 * n)                                                                              \
    X(migratable, n)                                                                              \
    X(src, n_edges)                                                                               \
    X(dst, n_edges)                                                                               \
    X(edge_bytes, n_edges)

enum {
#define X(array, n) HAS_##array,
    ARRAYS(X)
#undef X
};

typedef struct head {
    int64_t n, n_edges, has; /* has: bit HAS_x is 1 if the rank has given array x */
} head_t;

static int64_t rounded(int64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static head_t head_of(const pylb_cells *c)
{
    head_t h = {c->n, c->n_edges, 0};
#define X(array, n) h.has |= (int64_t)(c->array != NULL) << HAS_##array;
    ARRAYS(X)
#undef X
    return h;
}

static int64_t wire_bytes(const pylb_cells *c)
{
    int64_t size = (int64_t)sizeof(head_t);
    const int64_t n = c->n, n_edges = c->n_edges;
#define X(array, count)                                                                           \
    size += c->array == NULL ? 0 : rounded((count) * (int64_t)sizeof *c->array);
    ARRAYS(X)
#undef X
    (void)n;
    (void)n_edges;
    return size;
}

static int pack(const pylb_cells *c, char **out, int64_t *size, plb_err_t *err)
{
    const int64_t n = c->n, n_edges = c->n_edges;
    const head_t head = head_of(c);
    *size = wire_bytes(c);
    PLB_PASS_NEW0(*out, *size);
    memcpy(*out, &head, sizeof head);
    char *at = *out + sizeof head;
#define X(array, count)                                                                           \
    if (c->array != NULL && (count) > 0) {                                                        \
        memcpy(at, c->array, (size_t)(count) * sizeof *c->array);                                 \
        at += rounded((count) * (int64_t)sizeof *c->array);                                       \
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
    double *load, *coords, *edge_bytes;
    int64_t *key, *nbytes, *memory;
    uint8_t *migratable;
    int32_t *rank, *src, *dst, *placed;
} database_t;

static void free_database(database_t *self)
{
    PLB_FREE(self->count, self->order, self->load, self->coords, self->edge_bytes, self->key,
             self->nbytes, self->memory, self->migratable, self->rank, self->src, self->dst,
             self->placed);
}

static int by_key(const void *a, const void *b)
{
    const keyed_t *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Set *out to the cells of a rank: pointers into the bytes that the rank has sent. */
static head_t unpack(const char *wire, pylb_cells *out)
{
    head_t h;
    memcpy(&h, wire, sizeof h);
    *out = (pylb_cells){.n = h.n, .n_edges = h.n_edges};
    const int64_t n = h.n, n_edges = h.n_edges;
    const char *at = wire + sizeof h;
#define X(array, count)                                                                           \
    if (h.has >> HAS_##array & 1 && (count) > 0) {                                                \
        out->array = (const void *)at;                                                            \
        at += rounded((count) * (int64_t)sizeof *out->array);                                     \
    }
    ARRAYS(X)
#undef X
    return h;
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
        const int64_t edges = (int64_t)7 << HAS_src;
        PLB_FAIL_IF(h.n > 0 && first >= 0 && (h.has & ~edges) != (all->has & ~edges), err,
                    PLB_ERR_VALUE,
                    "ranks %d and %d gave different kinds of arrays for their cells: expected the "
                    "same kinds",
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

static int sort_keys(database_t *self, plb_err_t *err)
{
    qsort(self->order, (size_t)self->n, sizeof *self->order, by_key);
    for (int64_t i = 1; i < self->n; i++) {
        PLB_FAIL_IF(self->order[i].key == self->order[i - 1].key, err, PLB_ERR_KEY,
                    "key %lld is given twice", (long long)self->order[i].key);
    }
    return PLB_OK;
}

static int allocate(database_t *self, const head_t *all, int p, plb_err_t *err)
{
    const int64_t n = self->n = all->n;
    PLB_PASS_NEW(self->count, p);
    PLB_PASS_NEW_EACH(n, self->order, self->load, self->key, self->rank, self->placed);
    if (all->has >> HAS_nbytes & 1) {
        PLB_PASS_NEW(self->nbytes, n);
    }
    if (all->has >> HAS_memory & 1) {
        PLB_PASS_NEW(self->memory, n);
    }
    if (all->has >> HAS_migratable & 1) {
        PLB_PASS_NEW(self->migratable, n);
    }
    if (all->has >> HAS_coords & 1) {
        PLB_PASS_NEW(self->coords, 3 * n);
    }
    PLB_PASS_NEW_EACH(all->n_edges, self->src, self->dst, self->edge_bytes);
    return PLB_OK;
}

/* Copy the cells of rank r.  where[i]: index of the rank's cell i in the cells sorted by key. */
static void copy_cells(database_t *self, const pylb_cells *c, int32_t r, const int32_t *where)
{
    for (int64_t i = 0; i < c->n; i++) {
        const int32_t k = where[i];
        self->load[k] = c->load[i];
        self->rank[k] = r;
        if (self->nbytes != NULL) {
            self->nbytes[k] = c->nbytes[i];
        }
        if (self->memory != NULL) {
            self->memory[k] = c->memory[i];
        }
        if (self->migratable != NULL) {
            self->migratable[k] = c->migratable[i] != 0;
        }
        for (int x = 0; self->coords != NULL && x < 3; x++) {
            self->coords[3 * (int64_t)k + x] = c->coords[3 * i + x];
        }
    }
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

static int copy_edges(database_t *self, const pylb_cells *c, plb_err_t *err)
{
    for (int64_t e = 0; e < c->n_edges; e++) {
        const int64_t k = self->n_edges++;
        PLB_PASS(find_key(self, c->src[e], &self->src[k], err));
        PLB_PASS(find_key(self, c->dst[e], &self->dst[k], err));
        self->edge_bytes[k] = c->edge_bytes[e];
    }
    return PLB_OK;
}

static int join(database_t *self, const char *wire, const int64_t *size, int p, plb_err_t *err)
{
    int ret = PLB_OK;
    head_t all;
    pylb_cells c;
    int32_t *where = NULL;
    int64_t at = 0;
    PLB_TRY(check_alike(wire, size, p, &all, err));
    PLB_TRY(allocate(self, &all, p, err));
    PLB_NEW(where, all.n);
    const char *from = wire;
    for (int r = 0; r < p; from += size[r++]) {
        (void)unpack(from, &c);
        self->count[r] = c.n;
        for (int64_t i = 0; i < c.n; i++, at++) {
            const int64_t key = c.key == NULL ? ((int64_t)r << 32) + i : c.key[i];
            self->order[at] = (keyed_t){key, at};
        }
    }
    PLB_TRY(sort_keys(self, err));
    for (int64_t k = 0; k < self->n; k++) {
        self->key[k] = self->order[k].key;
        where[self->order[k].at] = (int32_t)k;
    }
    from = wire;
    at = 0;
    for (int r = 0; r < p; from += size[r++]) {
        (void)unpack(from, &c);
        copy_cells(self, &c, r, where + at);
        PLB_TRY(copy_edges(self, &c, err));
        at += c.n;
    }
out:
    plb_free(where);
    return ret;
}

static plb_snapshot_t snapshot_of(const database_t *self, int p)
{
    return (plb_snapshot_t){
        .n_objects = self->n,
        .n_ranks = p,
        .n_components = 1,
        .load = self->load,
        .rank = self->rank,
        .key = self->key,
        .nbytes = self->nbytes,
        .memory = self->memory,
        .migratable = self->migratable,
        .coords = self->coords,
        .n_edges = self->n_edges,
        .edge_src = self->src,
        .edge_dst = self->dst,
        .edge_bytes = self->edge_bytes,
    };
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* The first part of rank 0's answer.  The second part has the number of cells and the speed of
 * each rank, and the new rank of each cell, in the order of the ranks. */
typedef struct reply {
    int32_t code;
    char text[512];
    plb_placing_t placing;
    double seconds; /* result of the question: seconds saved (preview) or needed (rehearse) */
    int64_t n, migrations, bytes; /* number of all cells; cells that move, and their bytes */
} reply_t;

/* A computation on the database, by rank 0; its function `ask` writes `reply` and `speed`. */
typedef struct question {
    plb_decider_t *decider;
    const plb_network_t *network;
    int (*ask)(const struct question *self, database_t *db, int p, double *speed, reply_t *reply,
               plb_err_t *err);
} question_t;

static int place(const question_t *self, database_t *db, int p, double *speed, reply_t *reply,
                 plb_err_t *err)
{
    const plb_database_t all = {.snapshot = snapshot_of(db, p), .here = db->load};
    PLB_PASS(plb_decider_place(self->decider, &all, db->placed, speed, &reply->placing, err));
    for (int64_t k = 0; k < db->n; k++) {
        if (db->placed[k] != db->rank[k]) {
            reply->migrations++;
            reply->bytes += db->nbytes == NULL ? 0 : db->nbytes[k];
        }
    }
    return PLB_OK;
}

static int preview(const question_t *self, database_t *db, int p, double *speed, reply_t *reply,
                   plb_err_t *err)
{
    const plb_database_t all = {.snapshot = snapshot_of(db, p), .here = db->load};
    (void)speed;
    memcpy(db->placed, db->rank, (size_t)db->n * sizeof *db->rank);
    return plb_decider_preview(self->decider, &all, &reply->seconds, err);
}

/* Estimate the time to send all cells of the rank that has the most bytes.  No cell moves. */
static int rehearse(const question_t *self, database_t *db, int p, double *speed, reply_t *reply,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *bytes = NULL, most = 0;
    const plb_lb_cost_t cost = {.alpha = self->network->alpha, .beta = self->network->beta};
    (void)speed;
    memcpy(db->placed, db->rank, (size_t)db->n * sizeof *db->rank);
    PLB_NEW0(bytes, p);
    for (int64_t k = 0; k < db->n && db->nbytes != NULL; k++) {
        bytes[db->rank[k]] += db->nbytes[k];
    }
    for (int r = 0; r < p; r++) {
        most = bytes[r] > most ? bytes[r] : most;
    }
    reply->seconds = plb_first_cost(&cost, 0, most, p);
out:
    plb_free(bytes);
    return ret;
}

/* Compute the answer on rank 0; `tail` gets its second part: count[p], speed[p], rank[n]. */
static int answer(plb_transport_t *ranks, const question_t *question, const char *wire,
                  const int64_t *size, reply_t *reply, char **tail, plb_err_t *err)
{
    int ret = PLB_OK;
    const int p = ranks->size;
    database_t db = {0};
    PLB_TRY(join(&db, wire, size, p, err));
    const plb_snapshot_t all = snapshot_of(&db, p);
    PLB_TRY(plb_snapshot_check(&all, err));
    PLB_NEW0(*tail, 16 * (int64_t)p + 4 * db.n);
    double *speed = (double *)(void *)(*tail + 8 * (int64_t)p);
    int32_t *rank = (int32_t *)(void *)(*tail + 16 * (int64_t)p);
    memcpy(*tail, db.count, 8 * (size_t)p);
    reply->n = db.n;
    PLB_TRY(question->ask(question, &db, p, speed, reply, err));
    for (int64_t k = 0; k < db.n; k++) {
        rank[db.order[k].at] = db.placed[k];
    }
out:
    free_database(&db);
    return ret;
}

/* Copy this rank's part of the answer, and count the cells that it will get from each rank. */
static int take(const plb_transport_t *ranks, const reply_t *reply, const char *tail,
                plb_placed_t *out, plb_err_t *err)
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
    out->placing = reply->placing;
    out->migrations = reply->migrations;
    out->bytes = reply->bytes;
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

static int ask(plb_transport_t *ranks, const question_t *question, const pylb_cells *cells,
               reply_t *reply, plb_placed_t *out, plb_err_t *err)
{
    int64_t bytes;
    char *mine = NULL, *wire = NULL, *tail = NULL;
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    *out = (plb_placed_t){0};
    *reply = (reply_t){0};
    int ret = pack(cells, &mine, &bytes, err);
    PLB_TRY(ranks->gather(ranks, mine, ret == PLB_OK ? bytes : ret, &wire, err));
    if (ranks->rank == 0) {
        const double gathered = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
        reply->code = answer(ranks, question, wire, ranks->sizes, reply, &tail, err);
        memcpy(reply->text, err->text, sizeof reply->text);
        reply->placing.seconds_statistics = gathered;
    }
    PLB_TRY(tell(ranks, reply, &tail, err));
    ret = ranks->agree(ranks, take(ranks, reply, tail, out, err), err);
out:
    PLB_FREE(mine, wire, tail);
    return ret;
}

int plb_database_place(plb_transport_t *ranks, plb_decider_t *decider, const pylb_cells *cells,
                       bool timed, plb_placed_t *out, plb_err_t *err)
{
    reply_t reply;
    const question_t question = {.decider = decider, .ask = place};
    PLB_PASS(ask(ranks, &question, cells, &reply, out, err));
    if (!timed) {
        out->placing.seconds_statistics = out->placing.seconds_strategy = 0.0;
    }
    return PLB_OK;
}

int plb_database_preview(plb_transport_t *ranks, plb_decider_t *decider, const pylb_cells *cells,
                         double *gain, plb_err_t *err)
{
    reply_t reply;
    plb_placed_t answered;
    const question_t question = {.decider = decider, .ask = preview};
    const int ret = ask(ranks, &question, cells, &reply, &answered, err);
    *gain = reply.seconds;
    plb_placed_free(&answered);
    return ret;
}

int plb_database_rehearse(plb_transport_t *ranks, const plb_network_t *network,
                          const pylb_cells *cells, bool timed, double *seconds, plb_err_t *err)
{
    reply_t reply;
    plb_placed_t answered;
    const question_t question = {.network = network, .ask = rehearse};
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    const int ret = ask(ranks, &question, cells, &reply, &answered, err);
    plb_placed_free(&answered);
    const double passed = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    *seconds = reply.seconds + (timed ? passed : 0.0);
    return ret == PLB_OK ? ranks->bcast(ranks, seconds, sizeof *seconds, err) : ret;
}

void plb_placed_free(plb_placed_t *self)
{
    PLB_FREE(self->rank, self->receive, self->speed);
    *self = (plb_placed_t){0};
}
