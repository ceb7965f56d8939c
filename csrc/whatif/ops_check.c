#include "whatif/ops_check.h"

enum { MOST_REQUESTS = 1 << 24 }; /* largest number of open requests of a rank */
/* Largest number of nanoseconds (104 days) and of bytes (9 PB): still exact as a double. */
static const int64_t MOST = INT64_C(1) << 53;

bool plb_op_is_send(const plb_op_t *op)
{
    return op->kind == PLB_OP_SEND || op->kind == PLB_OP_ISEND;
}

bool plb_op_is_receive(const plb_op_t *op)
{
    return op->kind == PLB_OP_RECV || op->kind == PLB_OP_IRECV;
}

bool plb_op_has_request(const plb_op_t *op)
{
    return op->kind == PLB_OP_ISEND || op->kind == PLB_OP_IRECV || op->kind == PLB_OP_WAIT ||
           op->kind == PLB_OP_ICOLL;
}

static bool has_peer(const plb_op_t *op)
{
    switch (op->kind) {
    case PLB_OP_SEND:
    case PLB_OP_ISEND:
    case PLB_OP_ACCESS:
    case PLB_OP_LOCK:
    case PLB_OP_UNLOCK:
        return true;
    case PLB_OP_RECV:
    case PLB_OP_IRECV:
    case PLB_OP_PROBE:
        return !(op->flags & PLB_OP_ANY_SOURCE) || op->peer != -1;
    default:
        return false;
    }
}

#define EXPECT(good, what, value)                                                                 \
    if (!(good)) {                                                                                \
        return PLB_FAIL(err, PLB_ERR_FORMAT, "operation %lld of rank %d: %s is %lld",             \
                        (long long)at, rank, (what), (long long)(value));                         \
    }

int plb_op_check(const plb_op_t *op, int32_t rank, int64_t at, int32_t n_ranks,
                 const plb_comms_t *comms, plb_err_t *err)
{
    EXPECT(op->kind < PLB_N_OPS, "kind", op->kind)
    EXPECT(op->compute >= 0 && op->compute <= MOST, "processor time in ns", op->compute)
    EXPECT(op->bytes >= 0 && op->bytes <= MOST, "number of bytes", op->bytes)
    EXPECT(op->comm >= 0 && op->comm < comms->n, "communicator", op->comm)
    EXPECT(!plb_op_has_request(op) || (op->request >= 0 && op->request < MOST_REQUESTS), "request",
           op->request)
    EXPECT(!has_peer(op) || (op->peer >= 0 && op->peer < n_ranks), "peer", op->peer)
    if (op->kind == PLB_OP_COLL || op->kind == PLB_OP_ICOLL) {
        const int64_t first = comms->start[op->comm], size = comms->start[op->comm + 1] - first;
        EXPECT(op->what < PLB_N_COLLECTIVES, "collective", op->what)
        EXPECT(op->peer >= 0 && op->peer < size, "root", op->peer)
        EXPECT(op->tag >= 0 && op->tag < size && comms->member[first + op->tag] == rank,
               "own rank in the communicator", op->tag)
    }
    return PLB_OK;
}
