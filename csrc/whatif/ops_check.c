#include "whatif/ops_check.h"

enum { MOST_REQUESTS = 1 << 24 }; /* largest number of open requests of a rank */
/* Largest number of nanoseconds (104 days) and of bytes (9 PB): a double holds it exactly. */
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
        return true;
    case PLB_OP_RECV:
    case PLB_OP_IRECV:
    case PLB_OP_PROBE:
        return !(op->flags & PLB_OP_ANY_SOURCE) || op->peer != -1;
    default:
        return false;
    }
}

const char *const plb_one_sided_names[PLB_N_ONE_SIDED] = {
#define X(name) #name,
    PLB_ONE_SIDED_CALLS(X)
#undef X
};

#define EXPECT(what, value, most)                                                                 \
    do {                                                                                          \
        const long long is_ = (value), most_ = (most);                                            \
        PLB_FAIL_IF(!(0 <= is_ && is_ <= most_), err, PLB_ERR_FORMAT,                             \
                    "operation %lld of rank %d: %s is %lld: expected 0 ... %lld", (long long)at,  \
                    rank, (what), is_, most_);                                                    \
    } while (0)

int plb_op_check(const plb_op_t *op, int32_t rank, int64_t at, int32_t n_ranks,
                 const plb_comms_t *comms, plb_err_t *err)
{
    EXPECT("kind", op->kind, PLB_N_OPS - 1);
    if (op->kind == PLB_OP_ONE_SIDED) {
        EXPECT("one-sided call", op->what, PLB_N_ONE_SIDED - 1);
        return PLB_FAIL(err, PLB_ERR_VALUE,
                        "operation %lld of rank %d is MPI_%s: one-sided calls are not simulated",
                        (long long)at, rank, plb_one_sided_names[op->what]);
    }
    EXPECT("processor time in ns", op->compute, MOST);
    EXPECT("number of bytes", op->bytes, MOST);
    EXPECT("communicator", op->comm, comms->n - 1);
    if (plb_op_has_request(op)) {
        EXPECT("request", op->request, MOST_REQUESTS - 1);
    }
    if (has_peer(op)) {
        EXPECT("peer", op->peer, n_ranks - 1);
    }
    if (op->kind == PLB_OP_COLL || op->kind == PLB_OP_ICOLL) {
        const int64_t first = comms->start[op->comm], size = comms->start[op->comm + 1] - first;
        EXPECT("collective", op->what, PLB_N_COLLECTIVES - 1);
        EXPECT("root", op->peer, size - 1);
        EXPECT("own rank in the communicator", op->tag, size - 1);
        PLB_FAIL_IF(comms->member[first + op->tag] != rank, err, PLB_ERR_FORMAT,
                    "operation %lld of rank %d: own rank in the communicator is %d, which is rank "
                    "%d of MPI_COMM_WORLD: expected rank %d",
                    (long long)at, rank, op->tag, comms->member[first + op->tag], rank);
    }
    return PLB_OK;
}
