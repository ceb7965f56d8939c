/* Beginning, end, and what makes communicators. */
#include "record.h"

PLB_EXPORT int MPI_Init(int *argc, char ***argv)
{
    const int ret = PMPI_Init(argc, argv);
    int provided = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&provided);
    plb_record_start(provided);
    return ret;
}

PLB_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int ret = PMPI_Init_thread(argc, argv, required, provided);
    plb_record_start(*provided);
    return ret;
}

PLB_EXPORT int MPI_Finalize(void)
{
    plb_record_end(true);
    return PMPI_Finalize();
}

/* --- communicators: each call is collective over its parent --- */

static void meet(const plb_group_t *group)
{
    if (group != NULL && group->n_remote == 0) {
        plb_note((plb_op_t){.kind = PLB_OP_COLL,
                            .what = PLB_ALLREDUCE,
                            .bytes = 8,
                            .tag = group->rank,
                            .comm = group->number});
    }
}

void plb_note_made(MPI_Comm parent, MPI_Comm fresh)
{
    plb_group_t *group = plb_group(parent);
    meet(group);
    plb_group_made(fresh, group);
}

/* Over the members of the new one alone. */
void plb_made_among(MPI_Comm parent, MPI_Comm fresh)
{
    plb_group_made(fresh, plb_group(parent));
    if (fresh != MPI_COMM_NULL) {
        meet(plb_group(fresh));
    }
}

#define MAKES(name, noted, params, args)                                                          \
    PLB_EXPORT int MPI_##name params                                                              \
    {                                                                                             \
        PLB_WRAP(PMPI_##name args, noted(comm, *fresh));                                          \
    }

MAKES(Comm_dup, plb_note_made, (MPI_Comm comm, MPI_Comm *fresh), (comm, fresh))
MAKES(Comm_dup_with_info, plb_note_made, (MPI_Comm comm, MPI_Info info, MPI_Comm *fresh),
      (comm, info, fresh))
MAKES(Comm_split, plb_note_made, (MPI_Comm comm, int color, int key, MPI_Comm *fresh),
      (comm, color, key, fresh))
MAKES(Comm_split_type, plb_note_made,
      (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *fresh),
      (comm, type, key, info, fresh))
MAKES(Comm_create, plb_note_made, (MPI_Comm comm, MPI_Group group, MPI_Comm *fresh),
      (comm, group, fresh))
MAKES(Comm_create_group, plb_made_among,
      (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *fresh), (comm, group, tag, fresh))
MAKES(Cart_create, plb_note_made,
      (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
       MPI_Comm *fresh),
      (comm, ndims, dims, periods, reorder, fresh))
MAKES(Cart_sub, plb_note_made, (MPI_Comm comm, const int remain[], MPI_Comm *fresh),
      (comm, remain, fresh))
MAKES(Graph_create, plb_note_made,
      (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder,
       MPI_Comm *fresh),
      (comm, nodes, index, edges, reorder, fresh))
MAKES(Dist_graph_create, plb_note_made,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[],
       const int weights[], MPI_Info info, int reorder, MPI_Comm *fresh),
      (comm, n, sources, degrees, destinations, weights, info, reorder, fresh))
MAKES(Dist_graph_create_adjacent, plb_note_made,
      (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[], int outdegree,
       const int destinations[], const int destweights[], MPI_Info info, int reorder,
       MPI_Comm *fresh),
      (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder,
       fresh))
MAKES(Intercomm_merge, plb_made_among, (MPI_Comm comm, int high, MPI_Comm *fresh),
      (comm, high, fresh))
MAKES(Intercomm_create, plb_note_made,
      (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *fresh),
      (comm, leader, peer, remote, tag, fresh))

PLB_EXPORT int MPI_Comm_free(MPI_Comm *comm)
{
    const MPI_Comm was = *comm;
    PLB_WRAP(PMPI_Comm_free(comm), plb_group_gone(was));
}

PLB_EXPORT int MPI_Comm_disconnect(MPI_Comm *comm)
{
    const MPI_Comm was = *comm;
    PLB_WRAP(PMPI_Comm_disconnect(comm), plb_group_gone(was));
}

/* --- what a simulation cannot know --- */

PLB_EXPORT int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info,
                              int root, MPI_Comm comm, MPI_Comm *fresh, int errcodes[])
{
    PLB_WRAP(PMPI_Comm_spawn(command, argv, maxprocs, info, root, comm, fresh, errcodes),
             plb_lacks("MPI_Comm_spawn"));
}

PLB_EXPORT int MPI_Comm_accept(const char *port, MPI_Info info, int root, MPI_Comm comm,
                               MPI_Comm *fresh)
{
    PLB_WRAP(PMPI_Comm_accept(port, info, root, comm, fresh), plb_lacks("MPI_Comm_accept"));
}

PLB_EXPORT int MPI_Comm_connect(const char *port, MPI_Info info, int root, MPI_Comm comm,
                                MPI_Comm *fresh)
{
    PLB_WRAP(PMPI_Comm_connect(port, info, root, comm, fresh), plb_lacks("MPI_Comm_connect"));
}

/* Whoever aborts leaves what is known. */
PLB_EXPORT int MPI_Abort(MPI_Comm comm, int code)
{
    plb_record_end(false);
    return PMPI_Abort(comm, code);
}
