! Particles in cells; where a source comes near, particles take shorter time steps, so that the
! cells there take longer.  pylb says when to rebalance and where each cell goes, and moves the
! arrays.
!
!     mpifort -O2 particles.f90 $(pkg-config --cflags --libs pylb_fortran) -o particles
!     mpiexec -n 4 ./particles              # the times of the cells are measured
!     mpiexec -n 4 ./particles --virtual    # the times are computed: the same decisions each time
program particles
   use, intrinsic :: iso_fortran_env, only: int32, int64, real64
   use mpi
   use pylb
   implicit none

   integer, parameter :: n_cells = 128, n_steps = 200
   real(real64), parameter :: push = 1e-7_real64, lb_seconds = 1e-3_real64 ! with --virtual

   ! The cells of this rank: number, particles in each, and all particles in order of cell.
   integer(int64), allocatable :: cell(:)
   integer(int32), allocatable :: n_in(:)
   real(real64), allocatable :: x(:, :) ! (1, i): position in the cell; (2, i): velocity

   integer :: rank, n_ranks, ierr
   logical :: virtual
   character(16) :: word

   call MPI_Init(ierr)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
   call MPI_Comm_size(MPI_COMM_WORLD, n_ranks, ierr)
   call get_command_argument(1, word)
   virtual = word == "--virtual"
   if (rank == 0) print "(i2, a)", n_ranks, " ranks       max/mean   seconds  LB steps       energy"
   call run("without pylb", "off")
   call run("with pylb", "on")
   call MPI_Finalize(ierr)

contains

   subroutine run(name, mode)
      character(*), intent(in) :: name, mode
      type(pylb_advisor) :: lb
      type(pylb_plan) :: plan
      real(real64), allocatable :: load(:)
      real(real64) :: work(n_steps), began
      integer :: step

      call lb%create(MPI_COMM_WORLD)
      call lb%set("mode", mode)
      if (virtual) call lb%set("clock", "none")
      call begin()
      began = MPI_Wtime()
      do step = 1, n_steps
         call compute(step, load)
         work(step) = sum(load)
         call lb%advise(load, plan, key=cell, nbytes=16_int64*n_in)
         if (plan%rebalance) then
            call lb%rebalance_begin()
            call plan%migrate(x, count=n_in)
            call plan%migrate(cell)
            call plan%migrate(n_in) ! after x, which needs the old numbers of particles
            call lb%rebalance_end()
            if (virtual) call lb%rebalanced(lb_seconds)
         end if
      end do
      call show(name, work, MPI_Wtime() - began, lb)
      call lb%close()
   end subroutine run

   ! Each rank begins with a block of successive cells.
   subroutine begin()
      integer :: first, n, c, i, k
      first = n_cells*rank/n_ranks
      n = n_cells*(rank + 1)/n_ranks - first
      cell = [(int(first + c, int64), c=0, n - 1)]
      n_in = [(int(40 + mod(7*(first + c), 20), int32), c=0, n - 1)]
      if (allocated(x)) deallocate (x)
      allocate (x(2, sum(n_in)))
      i = 0
      do c = 1, n
         do k = 1, n_in(c)
            i = i + 1
            x(:, i) = [real(k, real64)/n_in(c) - 0.5_real64, 0.0_real64]
         end do
      end do
   end subroutine begin

   ! How many time steps the particles of a cell take: more near the source.
   pure integer function substeps(number, step)
      integer(int64), intent(in) :: number
      integer, intent(in) :: step
      integer :: distance
      distance = abs(int(number) - n_cells*step/n_steps)
      substeps = merge(40, 2, distance < n_cells/8)
   end function substeps

   ! Compute a time step of all particles, which are oscillators; load: seconds of each cell.
   subroutine compute(step, load)
      integer, intent(in) :: step
      real(real64), allocatable, intent(out) :: load(:)
      real(real64) :: began, dt
      integer :: c, i, first, k, n
      allocate (load(size(cell)))
      first = 1
      do c = 1, size(cell)
         began = MPI_Wtime()
         n = substeps(cell(c), step)
         dt = 0.05_real64/n
         do i = first, first + n_in(c) - 1
            do k = 1, n
               x(2, i) = x(2, i) - dt*sin(x(1, i))
               x(1, i) = x(1, i) + dt*x(2, i)
            end do
         end do
         first = first + n_in(c)
         load(c) = MPI_Wtime() - began
         if (virtual) load(c) = push*(n*n_in(c))
      end do
   end subroutine compute

   ! Print the results of a run, on rank 0.
   subroutine show(name, work, wall, lb)
      character(*), intent(in) :: name
      real(real64), intent(in) :: work(:), wall
      type(pylb_advisor), intent(inout) :: lb
      type(pylb_receipt) :: receipt
      real(real64) :: largest(n_steps), total(n_steps), energy, all, seconds
      integer(int64) :: decisions, lb_steps
      integer :: i, ierr
      energy = sum(0.5_real64*x(2, :)**2 - cos(x(1, :)))
      call MPI_Reduce(work, largest, n_steps, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, ierr)
      call MPI_Reduce(work, total, n_steps, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
      call MPI_Reduce(energy, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
      call lb%counts(decisions, lb_steps)
      if (rank /= 0) return
      seconds = merge(sum(largest) + lb_seconds*lb_steps, wall, virtual)
      print "(a14, f9.3, f10.4, i10, g13.6)", [character(14) :: name], &
         n_ranks*sum(largest)/sum(total), seconds, lb_steps, all
      do i = 1, int(decisions)
         call lb%receipt(i, receipt)
         if (virtual .and. receipt%rebalanced) then
            print "(a, i0, 3a, i0, 2(a, es24.16e3))", "after step ", receipt%iteration, ": ", &
               receipt%strategy, ", ", receipt%migrations, " cells, max/mean ", receipt%before, &
               " -> ", receipt%predicted
         end if
      end do
   end subroutine show
end program particles
