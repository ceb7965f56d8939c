/* A call of Zoltan that a signal can interrupt: it runs in a thread of its own. */
#include <string.h>

#include "base/aside.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "partition/libraries/alone.h"
#include "partition/libraries/zoltan.h"

/* Below these numbers of objects, a call takes some 50 ms at most: a thread of its own is not
 * worth its time, and the copy.  Cuts through points take less than partitions of a graph. */
enum { FEW = 4096, FEW_POINTS = 1 << 15 };

atomic_int plb_zoltan_left;

typedef struct asked {
    plb_zoltan_t in; /* a copy; its arrays are in `arrays` */
    void *arrays;
    int32_t *part;
    int code;
    bool keep;
    plb_zoltan_kept_t *kept;
    char *said;
} asked_t;

static plb_piece_t ints(plb_ints_t *x, int64_t n)
{
    return (plb_piece_t){&x->data, n * (x->wide ? 8 : 4)};
}

static void *own_arrays(plb_zoltan_t *in)
{
    const int64_t n = in->n;
    const int64_t edges = in->start.data == NULL ? 0 : plb_int_at(in->start, n);
    const int64_t pins = in->net_start.data == NULL ? 0 : plb_int_at(in->net_start, in->n_nets);
    const plb_piece_t piece[] = {
        PLB_PIECE(in->dist, 2),
        PLB_PIECE(in->weight, n * in->n_weights),
        PLB_PIECE(in->share, in->n_parts),
        PLB_PIECE(in->coords, n * in->n_dims),
        ints(&in->start, n + 1),
        ints(&in->to, edges),
        PLB_PIECE(in->edge_weight, edges),
        ints(&in->net_start, in->n_nets + 1),
        ints(&in->pin, pins),
        PLB_PIECE(in->net_weight, in->n_nets),
        PLB_PIECE(in->old, n),
        PLB_PIECE(in->fixed, n),
        PLB_PIECE(in->size, n),
    };
    return plb_aside_own(piece, sizeof piece / sizeof *piece);
}

static void asked_free(void *data)
{
    asked_t *self = data;
    if (self->kept != NULL) {
        plb_zoltan_leave(self->kept);
    }
    PLB_FREE((void *)self->in.option, self->arrays, self->part, self->said, self);
}

static asked_t *asked_new(const plb_zoltan_t *in, bool keep)
{
    asked_t *self = plb_malloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    *self = (asked_t){.in = *in, .keep = keep};
    self->arrays = own_arrays(&self->in);
    self->in.option = plb_aside_words(in->option, 2 * in->n_options);
    self->part = plb_malloc((size_t)in->n, sizeof *self->part);
    if (self->arrays == NULL || self->in.option == NULL || self->part == NULL) {
        asked_free(self);
        return NULL;
    }
    return self;
}

static int call(const plb_zoltan_t *in, int32_t *part, int *code, plb_zoltan_kept_t **keep,
                char **said, plb_err_t *err)
{
    plb_err_t unheard;
    PLB_PASS(plb_zoltan_has_mpi(err));
    if (plb_zoltan_listen_begin(err) != PLB_OK) {
        return plb_zoltan_refuse(in->comm, err);
    }
    const int ret = plb_zoltan_run(in, part, code, keep, err);
    plb_zoltan_listen_end(said, &unheard);
    return ret;
}

static int run(void *data, plb_err_t *err)
{
    asked_t *self = data;
    return call(&self->in, self->part, &self->code, self->keep ? &self->kept : NULL, &self->said,
                err);
}

static bool aside(const plb_zoltan_t *in)
{
    const bool points = in->start.data == NULL && in->net_start.data == NULL;
    return plb_interruptible() && in->n >= (points ? FEW_POINTS : FEW) &&
           plb_zoltan_has_mpi(NULL) == PLB_OK && plb_may_run_aside(in->comm);
}

int plb_zoltan_call(const plb_zoltan_t *in, int32_t *part, int *code, plb_zoltan_kept_t **keep,
                    char **said, plb_err_t *err)
{
    asked_t *self = aside(in) ? asked_new(in, keep != NULL) : NULL;
    if (self == NULL) { /* also if there is no memory for a copy of the question */
        return call(in, part, code, keep, said, err);
    }
    const plb_aside_t how = {.run = run, .free = asked_free, .left = &plb_zoltan_left};
    const int ret = plb_aside_run(&how, self, err);
    if (ret == PLB_ERR_INTERRUPTED) {
        return ret;
    }
    memcpy(part, self->part, (size_t)in->n * sizeof *part);
    *code = self->code;
    *said = self->said;
    self->said = NULL;
    if (keep != NULL) {
        *keep = self->kept;
        self->kept = NULL;
    }
    asked_free(self);
    return ret;
}
