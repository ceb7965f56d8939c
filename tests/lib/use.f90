! Every call of the Fortran module, and its errors.  Prints the number of failures.
program use_pylb
   use, intrinsic :: iso_fortran_env, only: int32, int64, real64
   use mpi_f08
   use pylb
   implicit none

   integer, parameter :: n_cells = 24
   integer :: failures = 0, rank, n_ranks

   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, n_ranks)
   call errors()
   call one_rank_has_a_wrong_length()
   call when_only()
   call when_and_where()
   call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
   if (rank == 0) print "(i0, a)", failures, " failures"
   call MPI_Finalize()

contains

   subroutine check(ok, what)
      logical, intent(in) :: ok
      character(*), intent(in) :: what
      if (ok) return
      failures = failures + 1
      print "(3a)", what, ": ", pylb_error()
   end subroutine check

   ! A call has failed with that code, and with a message that has the word in it.
   subroutine refused(ierr, code, word)
      integer, intent(in) :: ierr, code
      character(*), intent(in) :: word
      call check(ierr == code, word)
      call check(index(pylb_error(), word) > 0, word)
   end subroutine refused

   subroutine errors()
      type(pylb_advisor) :: lb
      type(pylb_plan) :: plan
      type(pylb_receipt) :: receipt
      real(real64) :: loads(3)
      logical :: rebalance
      integer :: ierr
      call check(pylb_version() /= "", "version")
      call lb%start(ierr)
      call refused(ierr, pylb_err_value, "NULL")
      call lb%create(ierr=ierr)
      call check(ierr == pylb_ok, "create")
      call lb%set("no such word", "1", ierr)
      call refused(ierr, pylb_err_key, "no such word")
      call lb%set("lag", "-1", ierr)
      call check(ierr == pylb_err_value, "a bad lag")
      call lb%stop(ierr)
      call check(ierr == pylb_err_state, "stop without start")
      call lb%work(-1.0_real64, ierr)
      call check(ierr == pylb_err_value, "negative seconds")
      call pylb_inherit([1.0_real64, 4.0_real64], [1_int64, 2_int64, 2_int64], [1_int64, 2_int64, 3_int64], &
                        loads, split=.true.)
      call check(all(nint(loads) == [1, 2, 2]), "inherit")
      call pylb_inherit([1.0_real64, 4.0_real64], [1_int64], [0_int64], loads, ierr=ierr)
      call refused(ierr, pylb_err_range, "pair 0")
      call lb%advise([1.0_real64, 2.0_real64], plan, key=[1_int64], ierr=ierr)
      call refused(ierr, pylb_err_value, "length")
      call lb%advise([1.0_real64, 2.0_real64, 3.0_real64], plan, ierr=ierr, n_components=2)
      call refused(ierr, pylb_err_value, "length")
      call lb%advise([1.0_real64, 2.0_real64], plan, key=[1_int64], ierr=ierr, n_components=2)
      call check(ierr == pylb_ok .and. .not. plan%rebalance, "a cell with two loads")
      call lb%close()
      call lb%create()
      if (.not. lb%seconds() >= 0.0_real64) error stop "seconds"
      call lb%work(1.0_real64)
      call lb%advise(rebalance)
      call check(.not. rebalance, "one rank")
      call lb%set("lag", "1", ierr)
      call check(ierr == pylb_err_state, "set after the first step")
      call lb%receipt(1, receipt, ierr)
      call check(ierr == pylb_err_range, "no receipt")
      call lb%close()
      call lb%close()
      call lb%advise(rebalance, ierr)
      call check(ierr < 0 .and. .not. rebalance, "a handle that was closed")
   end subroutine errors

   ! The other ranks get an error, too, instead of waiting.
   subroutine one_rank_has_a_wrong_length()
      type(pylb_advisor) :: lb
      type(pylb_plan) :: plan
      integer(int64), allocatable :: key(:)
      integer :: ierr
      call lb%create(MPI_COMM_WORLD%MPI_VAL)
      key = [2_int64*rank, 2_int64*rank + 1]
      if (rank == 0) key = [0_int64]
      call lb%advise([1.0_real64, 2.0_real64], plan, key=key, ierr=ierr)
      call check(ierr < 0 .and. .not. plan%rebalance, "one rank has another number of keys")
      if (rank == 0) call refused(ierr, pylb_err_value, "length")
      call lb%close()
   end subroutine one_rank_has_a_wrong_length

   subroutine when_only()
      type(pylb_advisor) :: lb
      type(pylb_receipt) :: receipt
      logical :: rebalance
      integer(int64) :: decisions, lb_steps
      integer :: step, r, n, advised
      call lb%create(MPI_COMM_WORLD%MPI_VAL)
      call lb%set("every", "5 ")
      call lb%set("clock", "none")
      call lb%rank(r, n)
      call check(r == rank .and. n == n_ranks, "rank")
      advised = 0
      do step = 1, 20
         call lb%start()
         call lb%stop()
         call lb%work(1.0_real64 + rank)
         call lb%advise(rebalance)
         if (.not. rebalance) cycle
         advised = advised + 1
         call lb%rebalance_begin()
         call lb%rebalance_end()
         call lb%rebalanced(0.5_real64)
      end do
      call lb%counts(decisions, lb_steps)
      call check(advised == 4 .and. lb_steps == 3, "every 5") ! of the last one nothing is known
      call lb%receipt(1, receipt)
      call check(receipt%iteration == 4 .and. receipt%rebalanced, "receipt")
      call check(abs(receipt%cost - 0.5_real64) < 1e-12_real64 .and. receipt%reason /= "", "cost")
      call lb%close()
   end subroutine when_only

   subroutine when_and_where()
      type(pylb_advisor) :: lb
      type(pylb_plan) :: plan
      integer(int64), allocatable :: send(:), receive(:), data(:, :)
      integer(int64), allocatable, target, asynchronous :: cell(:), pair(:, :)
      integer(int32), allocatable, target, asynchronous :: count(:), number(:), numbers(:, :)
      real(real64), allocatable :: load(:)
      real(real64), allocatable, target, asynchronous :: x(:), y(:, :), other(:), new_x(:), new_y(:, :)
      integer(int64), allocatable, target, asynchronous :: new_pair(:, :)
      integer(int32), allocatable, target, asynchronous :: new_number(:), new_numbers(:, :), new_count(:)
      integer(int64), allocatable, target, asynchronous :: new_cell(:)
      logical, allocatable :: migratable(:)
      type(pylb_receipt) :: receipt
      integer(int64) :: decisions, lb_steps
      integer :: first, step, i, moved, ierr
      first = n_cells*rank/n_ranks
      cell = [(int(i, int64), i=first, n_cells*(rank + 1)/n_ranks - 1)]
      count = int(mod(cell, 4_int64), int32)
      x = real(cell, real64)
      y = spread(x, 1, 3)
      pair = spread(cell, 1, 2)
      number = [(int(spread(cell(i), 1, int(count(i))), int32), i=1, size(cell))]
      numbers = spread(int(cell, int32), 1, 2)
      allocate (send(n_ranks), receive(n_ranks))
      call lb%create(MPI_COMM_WORLD%MPI_VAL)
      call lb%set("every", "3")
      moved = 0
      do step = 1, 12
         load = 1.0_real64 + mod(cell + step, int(n_cells, int64))
         migratable = cell /= 0
         data = transpose(reshape([cell/2, 8 + 0*cell, -1 + 0*cell], [size(cell), 3]))
         call lb%advise(load, plan, key=cell, nbytes=8*(cell + 1), memory=cell, &
                        migratable=migratable, coords=spread(x, 1, 3), src=cell, dst=mod(cell + 1, int(n_cells, int64)), &
                        edge_bytes=load, shared=data)
         if (.not. plan%rebalance) cycle
         moved = moved + int(plan%migrations)
         call check(size(plan%rank) == size(cell), "rank of each cell")
         call plan%counts(send, receive)
         call check(sum(send) == size(cell) .and. sum(receive) == plan%n, "counts")
         call plan%counts(send, receive(:n_ranks - 1), ierr=ierr)
         call check(ierr == pylb_err_value, "too few counts")
         other = x
         if (rank == 0) other = [other, 1.0_real64] ! all ranks get an error before any item is sent
         call plan%migrate(other, ierr=ierr)
         call check(ierr == pylb_err_value, "one rank has another number of items")
         if (rank == 0) call refused(ierr, pylb_err_value, "each cell")
         call plan%migrate(other, count=spread(1, 1, size(cell)), ierr=ierr)
         call check(ierr == pylb_err_value, "one rank has another sum of counts")
         call plan%migrate_begin(other, new_x, ierr=ierr)
         call check(ierr == pylb_err_value .and. .not. allocated(new_x), "begin: another number")
         call plan%migrate_end(ierr)
         call check(ierr == pylb_err_state, "nothing has begun")
         if (mod(step, 2) == 0) then
            call plan%migrate_begin(x, new_x)
            call plan%migrate_begin(y, new_y)
            call plan%migrate_begin(pair, new_pair)
            call plan%migrate_begin(numbers, new_numbers)
            call plan%migrate_begin(number, new_number, count=count)
            call plan%migrate_begin(cell, new_cell)
            call plan%migrate_begin(count, new_count)
            call plan%migrate_end()
            call move_alloc(new_x, x)
            call move_alloc(new_y, y)
            call move_alloc(new_pair, pair)
            call move_alloc(new_numbers, numbers)
            call move_alloc(new_number, number)
            call move_alloc(new_cell, cell)
            call move_alloc(new_count, count)
            cycle
         end if
         call lb%rebalance_begin()
         call plan%migrate(x)
         call plan%migrate(y)
         call plan%migrate(pair)
         call plan%migrate(numbers)
         call plan%migrate(number, count=count)
         call plan%migrate(cell)
         call plan%migrate(count)
         call lb%rebalance_end()
      end do
      call check(n_ranks == 1 .or. moved > 0, "cells move")
      call check(all(nint(x) == cell) .and. all(nint(y(2, :)) == cell), "reals")
      call check(all(pair(2, :) == cell), "64 bits")
      call check(all(numbers(2, :) == cell) .and. all(count == mod(cell, 4_int64)), "integers")
      call check(all(number == [(spread(cell(i), 1, int(count(i))), i=1, size(cell))]), "sized")
      if (any(cell == 0) .neqv. rank == 0) failures = failures + 1
      call lb%counts(decisions, lb_steps)
      do i = 1, int(lb_steps)
         call lb%receipt(i, receipt)
         call check(receipt%seconds_migration > 0 .or. receipt%migrations == 0, "seconds to move")
         call check((receipt%seconds_hidden > 0) .eqv. (receipt%migrations > 0 .and. &
                                             mod(receipt%iteration, 2_int64) == 1), "seconds hidden")
      end do
      call lb%close()
   end subroutine when_and_where
end program use_pylb
