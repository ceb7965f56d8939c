#include "partition/ranks/settle.h"

#include <limits.h>
#include <string.h>

#include "base/ints.h"
#include "base/mem.h"
#include "partition/partition.h"

/* A row of numbers for each rank: sums over the rank's objects in each part, as plb_part_sums;
 * then, if given, sums of their sizes. */
typedef struct rows {
    int64_t width;
    int n_ranks;
    double *own, *total; /* [width] own row; sums over all ranks */
    double *all;         /* [n_ranks][width] all rows; NULL: too many numbers (MOST_NUMBERS) */
} rows_t;

/* If all rows together have more numbers than this, each rank gets only the sums.  The new names
 * then do not depend on which ranks have the objects. */
static const int64_t MOST_NUMBERS = 1 << 24;

/* ---- sums ----------------------------------------------------------------------------------- */

static int count(const plb_settle_t *in, double *own, plb_err_t *err)
{
    const plb_new_parts_t *p = &in->parts;
    PLB_FAIL_IF(p->part == NULL, err, PLB_ERR_LIBRARY, "the partitioner gave no answer");
    const int ret = plb_part_sums(p->part, p->n, p->n_parts, in->weight, in->n_weights, own, err);
    if (ret != PLB_OK || in->size == NULL) {
        return ret;
    }
    double *size = own + (int64_t)(1 + in->n_weights) * p->n_parts;
    memset(size, 0, (size_t)p->n_parts * sizeof *size);
    for (int64_t v = 0; v < p->n; v++) {
        size[p->part[v]] += in->size[v];
    }
    return PLB_OK;
}

static int exchange(const plb_settle_t *in, rows_t *rows, plb_err_t *err)
{
    int ret = PLB_OK;
    const int width = (int)rows->width;
    if (rows->all == NULL) {
        PLB_MPI(MPI_Allreduce(rows->own, rows->total, width, MPI_DOUBLE, MPI_SUM, in->comm));
        goto out;
    }
    PLB_MPI(MPI_Allgather(rows->own, width, MPI_DOUBLE, rows->all, width, MPI_DOUBLE, in->comm));
    memcpy(rows->total, rows->all, (size_t)width * sizeof *rows->total);
    for (int r = 1; r < rows->n_ranks; r++) {
        for (int i = 0; i < width; i++) {
            rows->total[i] += rows->all[(int64_t)r * width + i];
        }
    }
out:
    return ret;
}

static int fill_own(const plb_settle_t *in, rows_t *rows, plb_err_t *err)
{
    PLB_PASS_NEW_EACH(rows->width, rows->own, rows->total);
    if (rows->width * rows->n_ranks <= MOST_NUMBERS) {
        PLB_PASS_NEW(rows->all, rows->width * rows->n_ranks);
    }
    return count(in, rows->own, err);
}

static int gather(const plb_settle_t *in, rows_t *rows, plb_err_t *err)
{
    MPI_Comm_size(in->comm, &rows->n_ranks);
    rows->width = (int64_t)(1 + in->n_weights + (in->size != NULL)) * in->parts.n_parts;
    PLB_FAIL_IF(rows->width > INT_MAX, err, PLB_ERR_VALUE,
                "%d parts are too many: expected fewer than 2^31 sums", in->parts.n_parts);
    PLB_PASS(plb_agree(in->comm, fill_own(in, rows, err), err));
    return exchange(in, rows, err);
}

/* ---- names ---------------------------------------------------------------------------------- */

static int rename_parts(const plb_settle_t *in, const rows_t *rows, int32_t *name, bool *changed,
                        plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t k = in->parts.n_parts;
    plb_new_names_t names = in->names;
    double *on_rank = NULL;
    *changed = false;
    if (rows->all != NULL) {
        const int64_t at = in->size == NULL ? 0 : (int64_t)(1 + in->n_weights) * k;
        PLB_NEW(on_rank, (int64_t)rows->n_ranks * k);
        for (int r = 0; r < rows->n_ranks; r++) {
            memcpy(on_rank + (int64_t)r * k, rows->all + r * rows->width + at,
                   (size_t)k * sizeof *on_rank);
        }
        names.on_rank = on_rank;
    }
    ret = plb_remap(&names, name, err);
    for (int32_t p = 0; ret == PLB_OK && p < k; p++) {
        *changed |= name[p] != p;
    }
out:
    plb_free(on_rank);
    return ret;
}

static int apply(const plb_settle_t *in, const rows_t *rows, plb_settled_t *out, plb_err_t *err)
{
    const plb_new_parts_t *p = &in->parts;
    const int32_t k = p->n_parts;
    PLB_PASS_NEW(out->part, p->n);
    PLB_PASS_NEW(out->sums, (int64_t)(1 + in->n_weights) * k);
    for (int64_t v = 0; v < p->n; v++) {
        out->part[v] = out->name == NULL ? p->part[v] : out->name[p->part[v]];
    }
    for (int32_t c = 0; c <= in->n_weights; c++) {
        for (int32_t q = 0; q < k; q++) {
            const int32_t named = out->name == NULL ? q : out->name[q];
            out->sums[(int64_t)c * k + named] = rows->total[(int64_t)c * k + q];
        }
    }
    return PLB_OK;
}

static int name_parts(const plb_settle_t *in, const rows_t *rows, plb_settled_t *out,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    bool changed = false;
    if (in->rename) {
        PLB_NEW(out->name, in->parts.n_parts);
        ret = rename_parts(in, rows, out->name, &changed, err);
    }
    if (!changed) {
        plb_free(out->name);
        out->name = NULL;
    }
    PLB_THEN(apply(in, rows, out, err));
out:
    return ret;
}

/* ---- lists ---------------------------------------------------------------------------------- */

typedef struct lists {
    int32_t first, own; /* first part, and number of parts, on this rank */
    /* [n_ranks] number of objects to and from each rank, and where they begin in `gone` and
     * `came`; before, announce() uses these arrays for `counts` and `come` */
    int *send, *receive, *send_at, *receive_at;
    /* [n_ranks][own + 2] from each rank: the number of objects for each part of this rank; after
     * announce() also number and size of all objects that the sender moves */
    double *come;
    double *counts;    /* [n_parts + 2 n_ranks] what this rank sends to the other ranks' `come` */
    void *gone, *came; /* rows or ids: gone[out.n], by part; came[n_in], by sender, then by part */
} lists_t;

static int32_t parts_on(int rank, int n_ranks, int32_t k)
{
    return plb_first_on(rank + 1, n_ranks, k) - plb_first_on(rank, n_ranks, k);
}

static int announce(const plb_settle_t *in, plb_settled_t *out, int n_ranks, lists_t *l,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t k = in->parts.n_parts;
    double volume = 0.0;
    for (int64_t i = 0; in->size != NULL && i < out->out.n; i++) {
        volume += in->size[out->out.row[i]];
    }
    volume = in->size == NULL ? (double)out->out.n : volume;
    double *next = l->counts;
    for (int r = 0; r < n_ranks; r++) {
        l->send[r] = parts_on(r, n_ranks, k) + 2;
        l->receive[r] = l->own + 2;
        for (int32_t p = plb_first_on(r, n_ranks, k), j = 0; j < l->send[r] - 2; j++) {
            *next++ = out->out.count[p + j];
        }
        *next++ = (double)out->out.n;
        *next++ = volume;
    }
    plb_displacements(l->send, n_ranks, l->send_at);
    plb_displacements(l->receive, n_ranks, l->receive_at);
    PLB_MPI(MPI_Alltoallv(l->counts, l->send, l->send_at, MPI_DOUBLE, l->come, l->receive,
                          l->receive_at, MPI_DOUBLE, in->comm));
    for (int r = 0; r < n_ranks; r++) {
        out->moved += l->come[(int64_t)(r + 1) * (l->own + 2) - 2];
        out->volume += l->come[(int64_t)(r + 1) * (l->own + 2) - 1];
    }
out:
    return ret;
}

/* Compute `come` without communication: this rank has the rows of all ranks, and the old part of
 * every object is the first part on its rank. */
static void foresee(const plb_settle_t *in, const rows_t *rows, plb_settled_t *out, lists_t *l)
{
    const int32_t k = in->parts.n_parts;
    for (int r = 0; r < rows->n_ranks; r++) {
        const double *objects = rows->all + r * rows->width;
        const double *size =
            in->size == NULL ? objects : objects + (int64_t)(1 + in->n_weights) * k;
        const int32_t home = plb_own_part(r, rows->n_ranks, k);
        for (int32_t p = 0; p < k; p++) {
            const int32_t name = out->name == NULL ? p : out->name[p];
            const bool moves = name != home;
            out->moved += moves ? objects[p] : 0.0;
            out->volume += moves ? size[p] : 0.0;
            if (name >= l->first && name < l->first + l->own) {
                l->come[(int64_t)r * (l->own + 2) + name - l->first] = moves ? objects[p] : 0.0;
            }
        }
    }
}

static void count_words(plb_settled_t *out, int32_t k, int n_ranks, lists_t *l)
{
    for (int r = 0; r < n_ranks; r++) {
        l->send[r] = l->receive[r] = 0;
        for (int32_t p = plb_first_on(r, n_ranks, k), n = parts_on(r, n_ranks, k); n > 0; n--) {
            l->send[r] += out->out.count[p++];
        }
        for (int32_t j = 0; j < l->own; j++) {
            l->receive[r] += (int)l->come[(int64_t)r * (l->own + 2) + j];
        }
    }
    plb_displacements(l->send, n_ranks, l->send_at);
    out->n_in = plb_displacements(l->receive, n_ranks, l->receive_at);
}

static int make_room(const plb_settle_t *in, plb_settled_t *out, int n_ranks, lists_t *l,
                     plb_err_t *err)
{
    const int64_t *ids = in->parts.ids;
    const size_t size = ids == NULL ? sizeof(int32_t) : sizeof(int64_t);
    count_words(out, in->parts.n_parts, n_ranks, l);
    PLB_PASS_NEW_EACH(out->n_in, out->id, out->rank, out->new_part);
    l->came = plb_malloc((size_t)out->n_in, size);
    l->gone = ids == NULL ? out->out.packed : plb_malloc((size_t)out->out.n, size);
    PLB_FAIL_IF(l->came == NULL || l->gone == NULL, err, PLB_ERR_NOMEM,
                "out of memory: %lld objects arrive, %lld leave", (long long)out->n_in,
                (long long)out->out.n);
    for (int64_t i = 0; ids != NULL && i < out->out.n; i++) {
        ((int64_t *)l->gone)[i] = ids[out->out.packed[i]];
    }
    return PLB_OK;
}

/* Send the ids of the moving objects; without `ids`, their 32-bit indices on the sender.  Their
 * parts are not sent: both ranks know how many objects go to each part. */
static int receive(const plb_settle_t *in, plb_settled_t *out, int n_ranks, lists_t *l,
                   plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t *ids = in->parts.ids;
    const MPI_Datatype type = ids == NULL ? MPI_INT32_T : MPI_INT64_T;
    PLB_MPI(MPI_Alltoallv(l->gone, l->send, l->send_at, type, l->came, l->receive, l->receive_at,
                          type, in->comm));
    int64_t i = 0;
    for (int r = 0; r < n_ranks; r++) {
        for (int32_t j = 0; j < l->own; j++) {
            const int64_t end = i + (int64_t)l->come[(int64_t)r * (l->own + 2) + j];
            for (; i < end; i++) {
                out->id[i] =
                    ids == NULL ? in->dist[r] + ((int32_t *)l->came)[i] : ((int64_t *)l->came)[i];
                out->rank[i] = r;
                out->new_part[i] = l->first + j;
            }
        }
    }
out:
    return ret;
}

static int begin_lists(const plb_settle_t *in, int n_ranks, plb_settled_t *out, lists_t *l,
                       plb_err_t *err)
{
    const int32_t k = in->parts.n_parts;
    int rank;
    plb_new_parts_t parts = in->parts;
    parts.part = out->part;
    MPI_Comm_rank(in->comm, &rank);
    l->first = plb_first_on(rank, n_ranks, k);
    l->own = parts_on(rank, n_ranks, k);
    PLB_PASS_NEW(l->send, 4 * n_ranks);
    PLB_PASS_NEW(l->come, (int64_t)n_ranks * (l->own + 2));
    PLB_PASS_NEW(l->counts, k + 2 * (int64_t)n_ranks);
    l->receive = l->send + n_ranks, l->send_at = l->receive + n_ranks;
    l->receive_at = l->send_at + n_ranks;
    return plb_moves_init(&out->out, &parts, err);
}

/* failed: this rank's error since the last collective call, or PLB_OK. */
static int list(const plb_settle_t *in, const rows_t *rows, int failed, plb_settled_t *out,
                plb_err_t *err)
{
    int ret = failed;
    lists_t l = {0};
    PLB_THEN(begin_lists(in, rows->n_ranks, out, &l, err));
    if (in->parts.old != NULL || rows->all == NULL) {
        PLB_TRY(plb_agree(in->comm, ret, err));
        ret = announce(in, out, rows->n_ranks, &l, err);
    } else if (ret == PLB_OK) {
        foresee(in, rows, out, &l);
    }
    PLB_THEN(make_room(in, out, rows->n_ranks, &l, err));
    PLB_TRY(plb_agree(in->comm, ret, err));
    ret = receive(in, out, rows->n_ranks, &l, err);
out:
    PLB_FREE(l.send, l.come, l.counts, l.came);
    if (l.gone != out->out.packed) {
        plb_free(l.gone);
    }
    return ret;
}

/* ---- the call ------------------------------------------------------------------------------- */

int plb_settle(const plb_settle_t *in, plb_settled_t *out, plb_err_t *err)
{
    rows_t rows = {0};
    *out = (plb_settled_t){0};
    int ret = gather(in, &rows, err);
    PLB_THEN(list(in, &rows, name_parts(in, &rows, out, err), out, err));
    PLB_FREE(rows.own, rows.total, rows.all);
    if (ret != PLB_OK) {
        plb_settled_free(out);
    }
    return ret;
}

void plb_settled_free(plb_settled_t *self)
{
    PLB_FREE(self->part, self->name, self->sums);
    plb_moves_free(&self->out);
    PLB_FREE(self->id, self->rank, self->new_part);
    *self = (plb_settled_t){0};
}
