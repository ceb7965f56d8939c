! Columns of an atmosphere: clouds make some expensive, and the clouds move.  The state of a column
! stays on its rank; pylb lends the work where that saves time.
!
!     mpifort -O2 columns.f90 $(pkg-config --cflags --libs pylb_fortran) -o columns
!     mpiexec -n 4 ./columns
!     PYLB_MODE=off mpiexec -n 4 ./columns       # without lending: the same checksum
module physics
   use, intrinsic :: iso_c_binding
   implicit none
   integer, parameter :: levels = 64

   type, bind(c) :: column
      real(c_double) :: cloud, temperature(levels)
   end type column

contains

   ! Advance n columns: a cloud needs many small steps, clear air few.
   function microphysics(n, in, out, user) bind(c) result(code)
      integer(c_int64_t), value :: n
      type(c_ptr), value :: in, out, user
      integer(c_int) :: code
      type(column), pointer :: before(:), after(:)
      integer(c_int64_t) :: i
      integer :: k
      call c_f_pointer(in, before, [n])
      call c_f_pointer(out, after, [n])
      after = before
      do i = 1, n
         do k = 1, merge(2020, 20, after(i)%cloud > 0.5)
            associate (t => after(i)%temperature)
               t = t + 1e-3_c_double*(cshift(t, -1) - 2*t + cshift(t, 1))
            end associate
         end do
      end do
      code = merge(1, 0, c_associated(user)) ! the program passes no data of its own
   end function microphysics
end module physics

program columns
   use, intrinsic :: iso_c_binding
   use mpi
   use physics
   use pylb
   implicit none
   integer, parameter :: n = 200, n_steps = 20
   type(pylb_advisor) :: lb
   type(column), target :: mine(n), after(n)
   real(c_double) :: total, seconds, place
   integer :: rank, n_ranks, step, i, z, ierr

   call MPI_Init(ierr)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
   call MPI_Comm_size(MPI_COMM_WORLD, n_ranks, ierr)
   call lb%create(MPI_COMM_WORLD)
   do i = 1, n
      mine(i)%temperature = [(sin(real(z*(rank*n + i), c_double)), z=0, levels - 1)]
   end do
   seconds = -MPI_Wtime()
   do step = 0, n_steps - 1
      do i = 1, n ! a front that covers 15 % of the columns
         place = real(rank*n + i - 1, c_double)/(n*n_ranks)
         mine(i)%cloud = merge(1, 0, modulo(real(step, c_double)/n_steps - place, 1.0_c_double) < 0.15)
      end do
      call lb%share(int(n, c_int64_t), c_sizeof(mine(1)), c_loc(mine), &
         c_sizeof(after(1)), c_loc(after), c_funloc(microphysics))
      mine = after
   end do
   seconds = seconds + MPI_Wtime()
   total = sum([(sum(abs(mine(i)%temperature)), i=1, n)])
   call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
   if (rank == 0) print "(a, f0.9, a, f0.2, a)", "checksum ", total, "; ", seconds, " s"
   call lb%close()
   call MPI_Finalize(ierr)
end program columns
