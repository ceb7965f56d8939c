#include "partition/aside.h"

#include <string.h>

#include "base/aside.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/mem.h"

/* vertices + edges + pins; below this, a library answers within about 30 ms */
enum { SMALL = 4096 };

typedef struct asked {
    const plb_partitioner_t *with;
    plb_question_t in; /* a copy; its arrays are in `arrays` */
    void *arrays;
    int32_t *part;
} asked_t;

static void *own_arrays(plb_question_t *in)
{
    const int64_t n = in->n_vertices;
    const int64_t edges = in->start == NULL ? 0 : in->start[n];
    const int64_t pins = in->net_start == NULL ? 0 : in->net_start[in->n_nets];
    const plb_piece_t piece[] = {
        PLB_PIECE(in->weight, n * in->n_weights),
        PLB_PIECE(in->share, in->n_parts),
        PLB_PIECE(in->start, n + 1),
        PLB_PIECE(in->to, edges),
        PLB_PIECE(in->edge_weight, edges),
        PLB_PIECE(in->net_start, in->n_nets + 1),
        PLB_PIECE(in->pin, pins),
        PLB_PIECE(in->net_weight, in->n_nets),
        PLB_PIECE(in->coords, n * in->n_dims),
        PLB_PIECE(in->fixed, n),
        PLB_PIECE(in->old, n),
        PLB_PIECE(in->old_cost, n),
    };
    return plb_aside_own(piece, sizeof piece / sizeof *piece);
}

static void asked_free(void *data)
{
    asked_t *self = data;
    PLB_FREE((void *)self->in.option, self->arrays, self->part, self);
}

static asked_t *asked_new(const plb_partitioner_t *with, const plb_question_t *in)
{
    asked_t *self = plb_calloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    *self = (asked_t){.with = with, .in = *in};
    self->arrays = own_arrays(&self->in);
    self->in.option = plb_aside_words(in->option, 2 * in->n_options);
    self->part = plb_malloc((size_t)in->n_vertices, sizeof *self->part);
    if (self->arrays == NULL || self->in.option == NULL || self->part == NULL) {
        asked_free(self);
        return NULL;
    }
    return self;
}

static int run(void *data, plb_err_t *err)
{
    const asked_t *self = data;
    return self->with->run(&self->in, self->part, err);
}

static bool is_small(const plb_question_t *in)
{
    int64_t size = in->n_vertices;
    size += in->start == NULL ? 0 : in->start[in->n_vertices];
    size += in->net_start == NULL ? 0 : in->net_start[in->n_nets];
    return size < SMALL;
}

int plb_partition_aside(const plb_partitioner_t *with, const plb_question_t *in, int32_t *part,
                        plb_err_t *err)
{
    /* not on a virtual rank: the work must run in its thread, whose own clock measures it */
    const bool aside = plb_interruptible() && !plb_clock_frame.on && !is_small(in);
    if (with->left == NULL || !aside) {
        return with->run(in, part, err);
    }
    asked_t *self = asked_new(with, in);
    PLB_FAIL_IF(self == NULL, err, PLB_ERR_NOMEM, "out of memory for a copy of the question");
    const plb_aside_t how = {
        .run = run, .free = asked_free, .watch = with->watch, .left = with->left};
    const int ret = plb_aside_run(&how, self, err);
    if (ret == PLB_OK) {
        memcpy(part, self->part, (size_t)in->n_vertices * sizeof *part);
    }
    if (ret != PLB_ERR_INTERRUPTED) {
        asked_free(self);
    }
    return ret;
}
