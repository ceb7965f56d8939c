/* Collectives, blocking and not.  `bytes` is what a rank contributes to one other, or to the
 * result. */
#include "record.h"

static bool collective_of(plb_op_t *out, plb_collective_t what, int root, int64_t bytes,
                          MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    if (group == NULL) {
        return false;
    }
    if (group->n_remote > 0) {
        plb_lacks("a collective between the groups of an intercommunicator");
        return false;
    }
    *out = (plb_op_t){.kind = PLB_OP_COLL,
                      .what = (uint16_t)what,
                      .bytes = bytes,
                      .peer = root,
                      .tag = group->rank,
                      .comm = group->number};
    return true;
}

void plb_note_collective(plb_collective_t what, int root, int64_t bytes, MPI_Comm comm)
{
    plb_op_t op;
    if (collective_of(&op, what, root, bytes, comm)) {
        plb_note(op);
    }
}

void plb_made_collective(MPI_Request request, plb_collective_t what, int root, int64_t bytes,
                         MPI_Comm comm)
{
    plb_op_t op;
    if (collective_of(&op, what, root, bytes, comm)) {
        op.kind = PLB_OP_ICOLL;
        plb_request_made(request, op, plb_group(comm), false);
    }
}

/* --- bytes --- */

/* What a rank sends, or where it sends from what it receives into, that. */
static int64_t sent(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int recvcount,
                    MPI_Datatype recvtype)
{
    return sendbuf == MPI_IN_PLACE ? plb_bytes(recvcount, recvtype)
                                   : plb_bytes(sendcount, sendtype);
}

static int members(MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && group->size > 0 ? group->size : 1;
}

static bool is_root(int root, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && group->rank == root;
}

static int64_t sum(const int counts[], MPI_Comm comm)
{
    int64_t out = 0;
    for (int i = 0; counts != NULL && i < members(comm); i++) {
        out += counts[i];
    }
    return out;
}

/* The mean over the ranks: `bytes` is one number. */
static int64_t mean(const int counts[], MPI_Datatype type, MPI_Comm comm)
{
    return plb_bytes(sum(counts, comm), type) / members(comm);
}

static int64_t own(const int counts[], MPI_Datatype type, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && counts ? plb_bytes(counts[group->rank], type) : 0;
}

static int64_t scattered(const void *recvbuf, int sendcount, MPI_Datatype sendtype, int recvcount,
                         MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    return recvbuf == MPI_IN_PLACE || is_root(root, comm) ? plb_bytes(sendcount, sendtype)
                                                          : plb_bytes(recvcount, recvtype);
}

/* --- each with its nonblocking cousin --- */

/* name, its nonblocking cousin, parameters and arguments but for the communicator and the request,
 * collective, root, bytes. */
#define BOTH(name, iname, params, args, what, root, bytes)                                        \
    PLB_EXPORT int MPI_##name(LIST params, MPI_Comm comm)                                         \
    {                                                                                             \
        PLB_WRAP(PMPI_##name(LIST args, comm), plb_note_collective(what, root, bytes, comm));     \
    }                                                                                             \
    PLB_EXPORT int MPI_##iname(LIST params, MPI_Comm comm, MPI_Request *request)                  \
    {                                                                                             \
        PLB_WRAP(PMPI_##iname(LIST args, comm, request),                                          \
                 plb_made_collective(*request, what, root, bytes, comm));                         \
    }
#define LIST(...) __VA_ARGS__

#define SEND const void *sendbuf, int sendcount, MPI_Datatype sendtype
#define SENDV                                                                                     \
    const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype
#define RECV void *recvbuf, int recvcount, MPI_Datatype recvtype
#define RECVV void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype
#define SEND_ARGS sendbuf, sendcount, sendtype
#define SENDV_ARGS sendbuf, sendcounts, sdispls, sendtype
#define RECV_ARGS recvbuf, recvcount, recvtype
#define RECVV_ARGS recvbuf, recvcounts, rdispls, recvtype
#define REDUCED const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op
#define REDUCED_ARGS sendbuf, recvbuf, count, type, op
#define SENT sent(sendbuf, sendcount, sendtype, recvcount, recvtype)

PLB_EXPORT int MPI_Barrier(MPI_Comm comm)
{
    PLB_WRAP(PMPI_Barrier(comm), plb_note_collective(PLB_BARRIER, 0, 0, comm));
}
PLB_EXPORT int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    PLB_WRAP(PMPI_Ibarrier(comm, request), plb_made_collective(*request, PLB_BARRIER, 0, 0, comm));
}

BOTH(Bcast, Ibcast, (void *buffer, int count, MPI_Datatype type, int root),
     (buffer, count, type, root), PLB_BCAST, root, plb_bytes(count, type))
BOTH(Gather, Igather, (SEND, RECV, int root), (SEND_ARGS, RECV_ARGS, root), PLB_GATHER, root, SENT)
BOTH(Gatherv, Igatherv, (SEND, RECVV, int root), (SEND_ARGS, RECVV_ARGS, root), PLB_GATHER, root,
     is_root(root, comm) ? own(recvcounts, recvtype, comm) : plb_bytes(sendcount, sendtype))
BOTH(Scatter, Iscatter, (SEND, RECV, int root), (SEND_ARGS, RECV_ARGS, root), PLB_SCATTER, root,
     scattered(recvbuf, sendcount, sendtype, recvcount, recvtype, root, comm))
BOTH(Scatterv, Iscatterv, (SENDV, RECV, int root), (SENDV_ARGS, RECV_ARGS, root), PLB_SCATTER,
     root, is_root(root, comm) ? mean(sendcounts, sendtype, comm) : plb_bytes(recvcount, recvtype))
BOTH(Allgather, Iallgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLGATHER, 0, SENT)
BOTH(Allgatherv, Iallgatherv, (SEND, RECVV), (SEND_ARGS, RECVV_ARGS), PLB_ALLGATHER, 0,
     mean(recvcounts, recvtype, comm))
BOTH(Alltoall, Ialltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLTOALL, 0, SENT)
BOTH(Alltoallv, Ialltoallv, (SENDV, RECVV), (SENDV_ARGS, RECVV_ARGS), PLB_ALLTOALL, 0,
     sendbuf == MPI_IN_PLACE ? mean(recvcounts, recvtype, comm) : mean(sendcounts, sendtype, comm))
BOTH(Alltoallw, Ialltoallw,
     (const void *sendbuf, const int sendcounts[], const int sdispls[],
      const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
      const MPI_Datatype recvtypes[]),
     (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
     PLB_ALLTOALL, 0, mean(recvcounts, recvtypes[0], comm))
BOTH(Reduce, Ireduce, (REDUCED, int root), (REDUCED_ARGS, root), PLB_REDUCE, root,
     plb_bytes(count, type))
BOTH(Allreduce, Iallreduce, (REDUCED), (REDUCED_ARGS), PLB_ALLREDUCE, 0, plb_bytes(count, type))
BOTH(Scan, Iscan, (REDUCED), (REDUCED_ARGS), PLB_SCAN, 0, plb_bytes(count, type))
BOTH(Exscan, Iexscan, (REDUCED), (REDUCED_ARGS), PLB_EXSCAN, 0, plb_bytes(count, type))
BOTH(Reduce_scatter, Ireduce_scatter,
     (const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype type, MPI_Op op),
     (sendbuf, recvbuf, recvcounts, type, op), PLB_REDUCE_SCATTER, 0,
     plb_bytes(sum(recvcounts, comm), type))
BOTH(Reduce_scatter_block, Ireduce_scatter_block,
     (const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype type, MPI_Op op),
     (sendbuf, recvbuf, recvcount, type, op), PLB_REDUCE_SCATTER, 0,
     plb_bytes((int64_t)recvcount *members(comm), type))

/* --- between neighbours --- */

enum { MOST_NEIGHBOURS = 1024 };

/* Sources and destinations of the topology, in its order; false where there are too many. */
static bool neighbours(MPI_Comm comm, int *n_in, int *in, int *n_out, int *out)
{
    int kind = MPI_UNDEFINED, weighted = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, n_in, n_out, &weighted);
        if (*n_in > MOST_NEIGHBOURS || *n_out > MOST_NEIGHBOURS) {
            return false;
        }
        static int weights[2][MOST_NEIGHBOURS];
        PMPI_Dist_graph_neighbors(comm, *n_in, in, weights[0], *n_out, out, weights[1]);
        return true;
    }
    if (kind == MPI_CART) {
        int dims = 0;
        PMPI_Cartdim_get(comm, &dims);
        if (2 * dims > MOST_NEIGHBOURS) {
            return false;
        }
        for (int d = 0; d < dims; d++) {
            PMPI_Cart_shift(comm, d, 1, &in[2 * d], &in[2 * d + 1]);
        }
        *n_in = *n_out = 2 * dims;
        for (int i = 0; i < *n_in; i++) {
            out[i] = in[i];
        }
        return true;
    }
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    if (kind != MPI_GRAPH || PMPI_Graph_neighbors_count(comm, rank, n_in) != MPI_SUCCESS ||
        *n_in > MOST_NEIGHBOURS) {
        return false;
    }
    PMPI_Graph_neighbors(comm, rank, *n_in, in);
    *n_out = *n_in;
    for (int i = 0; i < *n_in; i++) {
        out[i] = in[i];
    }
    return true;
}

/* A message to each destination and one from each source. */
static void note_neighbours(MPI_Comm comm, int64_t bytes)
{
    static int in[MOST_NEIGHBOURS], out[MOST_NEIGHBOURS];
    static int32_t request[2 * MOST_NEIGHBOURS];
    int n_in = 0, n_out = 0, n = 0;
    plb_group_t *group = plb_group(comm);
    if (group == NULL || !neighbours(comm, &n_in, in, &n_out, out)) {
        plb_lacks("a neighbourhood collective of too many neighbours");
        return;
    }
    group = plb_group_own(group);
    for (int i = 0; i < n_in + n_out; i++) {
        const bool receives = i < n_in;
        const int32_t peer = plb_world_rank(group, receives ? in[i] : out[i - n_in]);
        if (peer >= 0) {
            request[n] = plb_request_number();
            plb_note((plb_op_t){.kind = receives ? PLB_OP_IRECV : PLB_OP_ISEND,
                                .peer = peer,
                                .bytes = receives ? 0 : bytes,
                                .comm = group->number,
                                .request = request[n++]});
        }
    }
    for (int i = 0; i < n; i++) {
        plb_note((plb_op_t){.kind = PLB_OP_WAIT, .request = request[i], .peer = -1});
        plb_request_return(request[i]);
    }
}

#define NEIGHBOUR(name, params, args, bytes)                                                      \
    PLB_EXPORT int MPI_Neighbor_##name(LIST params, MPI_Comm comm)                                \
    {                                                                                             \
        PLB_WRAP(PMPI_Neighbor_##name(LIST args, comm), note_neighbours(comm, bytes));            \
    }                                                                                             \
    PLB_EXPORT int MPI_Ineighbor_##name(LIST params, MPI_Comm comm, MPI_Request *request)         \
    {                                                                                             \
        PLB_WRAP(PMPI_Ineighbor_##name(LIST args, comm, request),                                 \
                 plb_lacks("MPI_Ineighbor_" #name));                                              \
    }

NEIGHBOUR(allgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), plb_bytes(sendcount, sendtype))
NEIGHBOUR(allgatherv, (SEND, RECVV), (SEND_ARGS, RECVV_ARGS), plb_bytes(sendcount, sendtype))
NEIGHBOUR(alltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), plb_bytes(sendcount, sendtype))
NEIGHBOUR(alltoallv, (SENDV, RECVV), (SENDV_ARGS, RECVV_ARGS),
          plb_bytes(sendcounts ? sendcounts[0] : 0, sendtype))
