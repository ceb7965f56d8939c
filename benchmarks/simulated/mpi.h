/* The part of MPI that csrc/comm/share.c uses, for ranks that are simulated in one process
 * (share.c in this folder). */
#pragma once

typedef int MPI_Comm, MPI_Datatype;
typedef void MPI_User_function(void *in, void *inout, int *n, MPI_Datatype *type);
typedef MPI_User_function *MPI_Op;
typedef struct sim_request *MPI_Request;
typedef struct sim_message *MPI_Message;
typedef struct MPI_Status {
    int MPI_SOURCE, MPI_TAG, bytes;
} MPI_Status;

#define MPI_COMM_NULL (-1)
#define MPI_OP_NULL ((MPI_Op)0)
#define MPI_REQUEST_NULL ((MPI_Request)0)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
enum { MPI_SUCCESS, MPI_ANY_SOURCE = -1, MPI_ANY_TAG = -1, MPI_BYTE = 1, MPI_DOUBLE = 8 };

int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Op_create(MPI_User_function *function, int commutes, MPI_Op *op);
int MPI_Op_free(MPI_Op *op);
int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Improbe(int from, int tag, MPI_Comm comm, int *there, MPI_Message *message,
                MPI_Status *status);
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *n);
int MPI_Mrecv(void *data, int n, MPI_Datatype type, MPI_Message *message, MPI_Status *status);
int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Iallgather(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype of,
                   MPI_Comm comm, MPI_Request *request);
int MPI_Allgather(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype of,
                  MPI_Comm comm);
int MPI_Test(MPI_Request *request, int *done, MPI_Status *status);
