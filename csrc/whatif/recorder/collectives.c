#include "whatif/recorder/internal.h"

#include <string.h>

static bool collective_of(plb_op_t *out, plb_collective_t what, int root, int64_t bytes,
                          MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    if (group == NULL) {
        return false;
    }
    if (group->n_remote > 0) {
        plb_lacks("a collective between the groups of an intercommunicator");
    }
    if (!group->meets) {
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

int plb_members(MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && group->size > 0 ? group->size : 1;
}

bool plb_is_root(int root, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && group->n_remote == 0 && group->rank == root;
}

static int64_t count_of(plb_counts_t counts, int rank)
{
    if (counts.array == NULL) {
        return 0;
    }
    return counts.large ? (int64_t)((const MPI_Count *)counts.array)[rank]
                        : ((const int *)counts.array)[rank];
}

int64_t plb_sum(plb_counts_t counts, MPI_Comm comm)
{
    int64_t out = 0;
    const plb_group_t *group = plb_group(comm);
    for (int i = 0; group && group->n_remote == 0 && i < group->size; i++) {
        out += count_of(counts, i);
    }
    return out;
}

int64_t plb_mean(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm)
{
    return plb_bytes(plb_sum(counts, comm), type) / plb_members(comm);
}

int64_t plb_own(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group ? plb_bytes(count_of(counts, group->rank), type) : 0;
}

/* --- between neighbours --- */

enum { MOST_NEIGHBOURS = 1024 };

/* Get the sources and destinations in the order of the topology; false: `comm` has no topology, or
 * there are too many neighbours. */
static bool neighbours(MPI_Comm comm, int *n_in, int *in, int *n_out, int *out)
{
    int kind = MPI_UNDEFINED, weighted = 0, dims = 0, rank = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_DIST_GRAPH) {
        static int weights[2][MOST_NEIGHBOURS];
        PMPI_Dist_graph_neighbors_count(comm, n_in, n_out, &weighted);
        if (*n_in > MOST_NEIGHBOURS || *n_out > MOST_NEIGHBOURS) {
            return false;
        }
        PMPI_Dist_graph_neighbors(comm, *n_in, in, weights[0], *n_out, out, weights[1]);
        return true;
    }
    PMPI_Comm_rank(comm, &rank);
    if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, &dims);
        *n_in = 2 * dims;
    } else if (kind != MPI_GRAPH || PMPI_Graph_neighbors_count(comm, rank, n_in) != MPI_SUCCESS) {
        return false;
    }
    if (*n_in > MOST_NEIGHBOURS) {
        return false;
    }
    for (int d = 0; d < dims; d++) {
        PMPI_Cart_shift(comm, d, 1, &in[2 * d], &in[2 * d + 1]);
    }
    if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors(comm, rank, *n_in, in);
    }
    *n_out = *n_in;
    memcpy(out, in, (size_t)*n_in * sizeof *in);
    return true;
}

static int in[MOST_NEIGHBOURS], out[MOST_NEIGHBOURS];

bool plb_sends(MPI_Comm comm)
{
    int n_in = 0, n_out = 0;
    return neighbours(comm, &n_in, in, &n_out, out) && n_out > 0;
}

void plb_note_neighbours(MPI_Comm comm, int64_t bytes)
{
    static int32_t request[2 * MOST_NEIGHBOURS];
    int n_in = 0, n_out = 0, n = 0;
    plb_group_t *group = plb_group(comm);
    if (group == NULL || !neighbours(comm, &n_in, in, &n_out, out)) {
        plb_lacks("a neighbourhood collective with more than 1024 neighbours");
        return;
    }
    group = plb_group_own(group);
    for (int i = 0; i < n_in + n_out; i++) {
        const bool receives = i < n_in;
        const int32_t peer = plb_world_rank(group, receives ? in[i] : out[i - n_in]);
        if (peer >= 0) {
            request[n++] =
                plb_note_begun((plb_op_t){.kind = receives ? PLB_OP_IRECV : PLB_OP_ISEND,
                                          .peer = peer,
                                          .bytes = receives ? 0 : bytes,
                                          .comm = group->number});
        }
    }
    for (int i = 0; i < n; i++) {
        plb_note_complete(request[i], NULL);
    }
}
