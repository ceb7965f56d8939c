/* Calls MPI as a Fortran program does, in a ring; linked with MPI's library for Fortran. */
#include <mpi.h>

void mpi_init_(MPI_Fint *);
void mpi_comm_rank_(MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_comm_size_(MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_comm_dup_(MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_isend_(void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                MPI_Fint *);
void mpi_irecv_(void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                MPI_Fint *);
void mpi_waitall_(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_sendrecv_(void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, void *, MPI_Fint *,
                   MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_allreduce_(void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_finalize_(MPI_Fint *);

int main(void)
{
    MPI_Fint ierr, rank, size, copy, one = 1, tag = 5, any = MPI_ANY_SOURCE, request[2], two = 2;
    double in = 0.0, out = 1.0;
    mpi_init_(&ierr);
    MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD), type = MPI_Type_c2f(MPI_DOUBLE);
    MPI_Fint sum = MPI_Op_c2f(MPI_SUM);
    mpi_comm_dup_(&world, &copy, &ierr);
    mpi_comm_rank_(&copy, &rank, &ierr);
    mpi_comm_size_(&copy, &size, &ierr);
    MPI_Fint right = (rank + 1) % size, left = (rank + size - 1) % size;
    mpi_irecv_(&in, &one, &type, &any, &tag, &copy, &request[0], &ierr);
    mpi_isend_(&out, &one, &type, &right, &tag, &copy, &request[1], &ierr);
    mpi_waitall_(&two, request, MPI_F_STATUSES_IGNORE, &ierr);
    mpi_sendrecv_(&out, &one, &type, &right, &tag, &in, &one, &type, &left, &tag, &copy,
                  MPI_F_STATUS_IGNORE, &ierr);
    mpi_allreduce_(&out, &in, &one, &type, &sum, &world, &ierr);
    mpi_finalize_(&ierr);
    return in == size ? 0 : 1;
}
