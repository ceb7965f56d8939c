#include <string.h>

#include "base/mem.h"
#include "comm/transport.h"

typedef struct alone {
    plb_transport_t face;
    plb_reduction_t reduction;
    int64_t bytes; /* bytes of this rank in the most recent gather */
} alone_t;

static int reserve(plb_transport_t *face, int depth, plb_err_t *err)
{
    alone_t *self = (alone_t *)face;
    plb_reduction_alone_free(&self->reduction);
    face->reduction = &self->reduction;
    return plb_reduction_alone(&self->reduction, depth, err);
}

static int gather(plb_transport_t *face, const void *mine, int64_t n, char **all, plb_err_t *err)
{
    *all = NULL;
    if (n < 0) {
        return (int)n;
    }
    PLB_PASS_NEW(*all, n);
    if (n > 0) {
        memcpy(*all, mine, (size_t)n);
    }
    ((alone_t *)face)->bytes = n;
    return PLB_OK;
}

static int agree(plb_transport_t *face, int ret, plb_err_t *err)
{
    (void)face;
    (void)err;
    return ret;
}

static int leave(plb_transport_t *face, plb_err_t *err)
{
    (void)face;
    (void)err;
    return PLB_OK;
}

static int bcast(plb_transport_t *face, void *data, int64_t n, plb_err_t *err)
{
    (void)face;
    (void)data;
    (void)n;
    (void)err;
    return PLB_OK;
}

static int begin_exchange(plb_transport_t *face, int failed, const char *from, const int64_t *send,
                          char *to, const int64_t *receive, int64_t bytes, plb_exchange_t **out,
                          plb_err_t *err)
{
    (void)face;
    (void)from;
    (void)send;
    (void)to;
    (void)receive;
    (void)bytes;
    (void)err;
    *out = NULL;
    return failed;
}

static int end_exchange(plb_transport_t *face, plb_exchange_t *exchange, plb_err_t *err)
{
    (void)face;
    (void)exchange;
    (void)err;
    return PLB_OK;
}

static void free_alone(plb_transport_t *face)
{
    plb_reduction_alone_free(&((alone_t *)face)->reduction);
    plb_free(face);
}

int plb_transport_alone(plb_transport_t **out, plb_err_t *err)
{
    alone_t *self = NULL;
    PLB_PASS_NEW0(self, 1);
    self->face = (plb_transport_t){.size = 1,
                                   .reserve = reserve,
                                   .gather = gather,
                                   .agree = agree,
                                   .leave = leave,
                                   .sizes = &self->bytes,
                                   .bcast = bcast,
                                   .begin_exchange = begin_exchange,
                                   .end_exchange = end_exchange,
                                   .free = free_alone};
    *out = &self->face;
    return PLB_OK;
}
