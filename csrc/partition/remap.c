#include "partition/partition.h"

#include <string.h>

#include "base/mem.h"

enum { NONE = -1 };

typedef struct namer {
    const plb_new_names_t *in;
    int32_t *name;  /* [n_parts] the new number of each part; NONE: not yet */
    bool *taken;    /* [n_parts] whether a part has this name */
    int32_t *room;  /* [n_parts] how many parts each place may take */
    int32_t *place; /* [n_parts] result of plb_assign */
    int64_t *start; /* start, to, gain: as in plb_gains_t */
    int32_t *to;
    double *gain;
} namer_t;

static int32_t rank_of(const plb_new_names_t *in, int32_t name)
{
    return plb_rank_of(name, in->n_ranks, in->n_parts);
}

static bool fits(const namer_t *s, int32_t part, int32_t name)
{
    const double *share = s->in->share;
    return !s->taken[name] && (share == NULL || share[part] == share[name]);
}

static void call(namer_t *s, int32_t part, int32_t name)
{
    s->name[part] = name;
    s->taken[name] = true;
}

static int assign(namer_t *s, plb_err_t *err)
{
    const int32_t k = s->in->n_parts;
    const plb_gains_t gains = {k, k, s->start, s->to, s->gain};
    return plb_assign(&gains, s->room, s->place, err);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static int check(const plb_new_names_t *in, plb_err_t *err)
{
    const int32_t k = in->n_parts;
    for (int64_t i = 0; i < in->n_kept; i++) {
        const int32_t p = in->part[i], q = in->old[i];
        const bool after =
            i == 0 || p > in->part[i - 1] || (p == in->part[i - 1] && q > in->old[i - 1]);
        PLB_FAIL_IF(
            p < 0 || p >= k || q < 0 || q >= k || !after, err, PLB_ERR_RANGE,
            "kept[%lld] is the pair of parts (%d, %d): expected 0 ... %d, in ascending order",
            (long long)i, p, q, k - 1);
    }
    return PLB_OK;
}

/* Make the total size of the objects that stay in their part largest. */
static int by_parts(namer_t *s, plb_err_t *err)
{
    const plb_new_names_t *in = s->in;
    int64_t n = 0, i = 0;
    for (int32_t p = 0; p < in->n_parts; p++) {
        s->start[p] = n;
        for (; i < in->n_kept && in->part[i] == p; i++) {
            if (s->name[p] == NONE && in->kept[i] > 0.0 && fits(s, p, in->old[i])) {
                s->to[n] = in->old[i];
                s->gain[n++] = in->kept[i];
            }
        }
        s->room[p] = 1;
    }
    s->start[in->n_parts] = n;
    const int ret = assign(s, err);
    for (int32_t p = 0; ret == PLB_OK && p < in->n_parts; p++) {
        if (s->place[p] != NONE) {
            call(s, p, s->place[p]);
        }
    }
    return ret;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Return the first free name on a rank that the part may get: all are equally good. */
static int32_t free_on(const namer_t *s, int32_t rank, int32_t part)
{
    const int32_t end = plb_first_on(rank + 1, s->in->n_ranks, s->in->n_parts);
    for (int32_t q = plb_first_on(rank, s->in->n_ranks, s->in->n_parts); q < end; q++) {
        if (fits(s, part, q)) {
            return q;
        }
    }
    return NONE;
}

/* Name the remaining parts: make the total size of the objects that stay on their rank largest. */
static int by_ranks(namer_t *s, plb_err_t *err)
{
    const plb_new_names_t *in = s->in;
    const int32_t k = in->n_parts;
    int64_t n = 0;
    memset(s->room, 0, (size_t)k * sizeof *s->room);
    for (int32_t q = 0; q < k; q++) {
        if (!s->taken[q]) {
            s->room[free_on(s, rank_of(in, q), q)]++;
        }
    }
    for (int32_t p = 0; p < k; p++) {
        s->start[p] = n;
        for (int32_t r = 0; s->name[p] == NONE && r < in->n_ranks; r++) {
            const double size = in->on_rank[(int64_t)r * k + p];
            const int32_t q = size > 0.0 ? free_on(s, r, p) : NONE;
            if (q != NONE) {
                s->to[n] = q;
                s->gain[n++] = size;
            }
        }
    }
    s->start[k] = n;
    const int ret = assign(s, err);
    for (int32_t p = 0; ret == PLB_OK && p < k; p++) {
        if (s->place[p] != NONE) {
            call(s, p, free_on(s, rank_of(in, s->place[p]), p));
        }
    }
    return ret;
}

/* ---- the call ------------------------------------------------------------------------------- */

/* A part without a name keeps its number; if that is taken, it gets the first free number of a
 * part with an equal share. */
static void fill(namer_t *s)
{
    const int32_t k = s->in->n_parts;
    for (int32_t p = 0; p < k; p++) {
        if (s->name[p] == NONE && fits(s, p, p)) {
            call(s, p, p);
        }
    }
    for (int32_t p = 0, q = 0; p < k; p++) {
        if (s->name[p] == NONE) {
            for (q = s->in->share == NULL ? q : 0; !fits(s, p, q); q++) {
            }
            call(s, p, q);
        }
    }
}

/* Compute the total size of the objects that stay in their part (out[0]) and on their rank
 * (out[1]); name NULL: each part keeps its number. */
static void worth(const plb_new_names_t *in, const int32_t *name, double out[2])
{
    out[0] = out[1] = 0.0;
    for (int64_t i = 0; i < in->n_kept; i++) {
        const int32_t p = in->part[i];
        out[0] += in->old[i] == (name == NULL ? p : name[p]) ? in->kept[i] : 0.0;
    }
    for (int32_t p = 0; in->on_rank != NULL && p < in->n_parts; p++) {
        const int32_t rank = rank_of(in, name == NULL ? p : name[p]);
        out[1] += in->on_rank[(int64_t)rank * in->n_parts + p];
    }
}

static bool wins(const plb_new_names_t *in, const int32_t *name)
{
    double now[2], own[2];
    worth(in, name, now);
    worth(in, NULL, own);
    return now[0] > own[0] || (now[0] == own[0] && now[1] > own[1]);
}

int plb_remap(const plb_new_names_t *in, int32_t *name, plb_err_t *err)
{
    const int32_t k = in->n_parts;
    const bool ranks = in->on_rank != NULL && k <= PLB_REMAP_MOST;
    const int64_t by_rank = ranks ? (int64_t)k * in->n_ranks : 0;
    const int64_t most = in->n_kept > by_rank ? in->n_kept : by_rank;
    namer_t s = {.in = in, .name = name};
    int ret = check(in, err);
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW0(s.taken, k);
    PLB_NEW_EACH(k, s.room, s.place);
    PLB_NEW(s.start, (int64_t)k + 1);
    PLB_NEW_EACH(most, s.to, s.gain);
    for (int32_t p = 0; p < k; p++) {
        name[p] = NONE;
        if (in->fixed != NULL && in->fixed[p]) {
            call(&s, p, p);
        }
    }
    ret = in->n_kept > 0 ? by_parts(&s, err) : PLB_OK;
    if (ret == PLB_OK && ranks) {
        ret = by_ranks(&s, err);
    }
    if (ret == PLB_OK) {
        fill(&s);
    }
    if (ret == PLB_OK && !wins(in, name)) {
        for (int32_t p = 0; p < k; p++) {
            name[p] = p;
        }
    }
out:
    PLB_FREE(s.taken, s.room, s.place, s.start, s.to, s.gain);
    return ret;
}
