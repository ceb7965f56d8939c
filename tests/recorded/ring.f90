! A ring in Fortran: gfortran -cpp -DMPI_HEADER (mpif.h) or without it (mpi_f08);
!   -DONE_SIDED: it also calls MPI_Put.
program ring
#ifndef MPI_HEADER
  use mpi_f08
#define HANDLE(of) type(of)
#else
#define HANDLE(of) integer
#endif
  implicit none
#ifdef MPI_HEADER
  include 'mpif.h'
#endif
  HANDLE(MPI_Comm) :: copy, circle
  HANDLE(MPI_Message) :: message
  HANDLE(MPI_Request) :: request(2)
  HANDLE(MPI_Win) :: window
  integer(kind=MPI_ADDRESS_KIND) :: displacement
#ifdef MPI_HEADER
  integer :: status(MPI_STATUS_SIZE)
#else
  type(MPI_Status) :: status
#endif
  integer :: rank, size, left, right, source, ierr
  logical :: flag
  double precision :: in(1000), out(1000), all

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, copy, ierr)
  call MPI_Comm_rank(copy, rank, ierr)
  call MPI_Comm_size(copy, size, ierr)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  out = rank

  call MPI_Irecv(in, 1000, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 5, copy, request(1), ierr)
  call MPI_Isend(out, 1000, MPI_DOUBLE_PRECISION, right, 5, copy, request(2), ierr)
  call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
  if (any(in /= left)) error stop 'Waitall'

  call MPI_Sendrecv(out, 1, MPI_DOUBLE_PRECISION, right, 6, in, 1, MPI_DOUBLE_PRECISION, left, 6, &
                    copy, MPI_STATUS_IGNORE, ierr)

  call MPI_Isend(out, 1, MPI_DOUBLE_PRECISION, right, 7, copy, request(1), ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Iprobe(MPI_ANY_SOURCE, 7, copy, flag, status, ierr)
  end do
#ifdef MPI_HEADER
  source = status(MPI_SOURCE)
#else
  source = status%MPI_SOURCE
#endif
  if (source /= left) error stop 'Iprobe'
  call MPI_Recv(in, 1, MPI_DOUBLE_PRECISION, source, 7, copy, status, ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(request(1), flag, MPI_STATUS_IGNORE, ierr)
  end do

  call MPI_Isend(out, 2, MPI_DOUBLE_PRECISION, right, 8, copy, request(1), ierr)
  call MPI_Mprobe(MPI_ANY_SOURCE, 8, copy, message, status, ierr)
  call MPI_Mrecv(in, 2, MPI_DOUBLE_PRECISION, message, status, ierr)
  call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierr)
  call MPI_Isend(out, 2, MPI_DOUBLE_PRECISION, right, 9, copy, request(1), ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Improbe(MPI_ANY_SOURCE, 9, copy, flag, message, status, ierr)
  end do
  call MPI_Imrecv(in, 2, MPI_DOUBLE_PRECISION, message, request(2), ierr)
  call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
  if (any(in(1:2) /= left)) error stop 'Imrecv'

  call MPI_Cart_create(copy, 1, [size], [.true.], .false., circle, ierr)
  call MPI_Neighbor_alltoall(out, 1, MPI_DOUBLE_PRECISION, in, 1, MPI_DOUBLE_PRECISION, circle, &
                             ierr)
  if (in(1) /= left .or. in(2) /= right) error stop 'Neighbor_alltoall'

  call MPI_Allreduce(out, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (all /= size * (size - 1) / 2) error stop 'Allreduce'

#ifdef ONE_SIDED
  displacement = 8 * 1000
  in = -1
  call MPI_Win_create(in, displacement, 8, MPI_INFO_NULL, copy, window, ierr)
  call MPI_Win_fence(0, window, ierr)
  displacement = 3
  call MPI_Put(out, 10, MPI_DOUBLE_PRECISION, right, displacement, 10, MPI_DOUBLE_PRECISION, window, &
               ierr)
  call MPI_Win_fence(0, window, ierr)
  if (any(in(4:13) /= left)) error stop 'Put'
  call MPI_Win_free(window, ierr)
#endif

  call MPI_Comm_free(copy, ierr)
  call MPI_Finalize(ierr)
end program ring
