!> pylb for Fortran: when to rebalance a parallel program, and where its cells go.
!!
!!     use pylb
!!     type(pylb_advisor) :: lb
!!     logical :: rebalance
!!
!!     call lb%create(MPI_COMM_WORLD)      ! with mpi_f08: MPI_COMM_WORLD%MPI_VAL
!!     do step = 1, n
!!        call lb%start()
!!        call compute()
!!        call lb%stop()
!!        call exchange_halos()
!!        call lb%advise(rebalance)
!!        if (rebalance) then
!!           call lb%rebalance_begin()
!!           call redistribute()
!!           call lb%rebalance_end()
!!        end if
!!     end do
!!     call lb%close()
!!
!! Each call does what the function of pylb.h with the same name does; that header says which calls
!! are collective, and what the errors are.
!!
!! Errors.  Each subroutine has an optional last argument `ierr`: 0 (pylb_ok) or one of the
!! pylb_err_ constants; pylb_error() is the message.  If a call without `ierr` fails, it stops the
!! program with that message.
!!
!! Numbers.  Ranks and steps count from 0, decisions and cells from 1.  Units are seconds and bytes.
module pylb
   use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_double, c_f_pointer, c_funptr, &
      c_int, c_int8_t, c_int32_t, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t
   use, intrinsic :: iso_fortran_env, only: error_unit
   implicit none
   private

   public :: pylb_advisor, pylb_plan, pylb_receipt, pylb_error, pylb_version, pylb_inherit

   integer, parameter, public :: pylb_ok = 0
   integer, parameter, public :: pylb_err_nomem = -1
   integer, parameter, public :: pylb_err_value = -2
   integer, parameter, public :: pylb_err_range = -3
   integer, parameter, public :: pylb_err_key = -4
   integer, parameter, public :: pylb_err_infeasible = -5
   integer, parameter, public :: pylb_err_format = -6
   integer, parameter, public :: pylb_err_mpi = -7
   integer, parameter, public :: pylb_err_interrupted = -8
   integer, parameter, public :: pylb_err_callback = -9
   integer, parameter, public :: pylb_err_state = -10
   integer, parameter, public :: pylb_err_missing = -11
   integer, parameter, public :: pylb_err_library = -12

   !> The advisor of a code that owns its data and its loop.
   type :: pylb_advisor
      private
      type(c_ptr) :: handle = c_null_ptr
   contains
      procedure :: create
      procedure :: set
      procedure :: close => close_advisor
      procedure :: rank => rank_of
      procedure :: start
      procedure :: stop => stop_work
      procedure :: work
      procedure :: seconds => seconds_of
      procedure :: share
      procedure, private :: advise_when
      procedure, private :: advise_where
      generic :: advise => advise_when, advise_where
      procedure :: rebalance_begin
      procedure :: rebalance_end
      procedure :: rebalanced
      procedure :: counts => advisor_counts
      procedure :: receipt => advisor_receipt
   end type pylb_advisor

   !> A plan: where each cell goes.  Valid until the next step.
   type :: pylb_plan
      logical :: rebalance = .false.                    !< false: nothing has to move
      integer(c_int64_t) :: n = 0                       !< number of cells that this rank will have
      integer(c_int64_t) :: migrations = 0              !< number of cells of all ranks that move
      integer(c_int32_t), pointer :: rank(:) => null()  !< new rank of each cell
      type(c_ptr), private :: handle = c_null_ptr
      integer(c_int), private :: n_ranks = 0
   contains
      procedure :: counts => plan_counts
      procedure, private :: migrate_int, migrate_int_2
      procedure, private :: migrate_long, migrate_long_2
      procedure, private :: migrate_real, migrate_real_2
      !> Move an allocatable array that has one item (in two dimensions: one column) for each cell;
      !! afterwards it has the items of this rank's present cells.  If `count` is given, cell i
      !! has count(i) items; migrate `count` itself last, by a call without `count`.
      generic :: migrate => migrate_int, migrate_int_2, migrate_long, migrate_long_2, &
         migrate_real, migrate_real_2
      procedure, private :: begin_int, begin_int_2, begin_long, begin_long_2, begin_real, begin_real_2
      !> migrate_begin(x, y, count) begins to move x to y, which is allocated here.  The program may
      !! then change the items of cells that stay.  Declare both arrays target and asynchronous.
      generic :: migrate_begin => begin_int, begin_int_2, begin_long, begin_long_2, begin_real, &
         begin_real_2
      procedure :: migrate_end !< wait for all arrays whose migration has begun
   end type pylb_plan

   !> A decision and its result.
   type :: pylb_receipt
      integer(c_int64_t) :: iteration = 0     !< the step after which the decision was made
      logical :: rebalanced = .false.         !< true: an LB step took place; false: none
      character(:), allocatable :: strategy   !< strategy of the LB step, or ""
      character(:), allocatable :: reason     !< reason of the decision, in words
      real(c_double) :: max = 0, mean = 0     !< seconds: largest and mean load in that step
      real(c_double) :: before = 0            !< max/mean before the LB step
      real(c_double) :: predicted = 0         !< max/mean expected after the LB step; NaN: unknown
      real(c_double) :: cost = 0              !< seconds of the LB step; 0 without one
      real(c_double) :: gain = 0              !< seconds that the LB step has saved; NaN: unknown
      integer(c_int64_t) :: migrations = 0    !< number of cells that moved
      !< seconds of the slowest rank to gather the cells, place and move them; NaN: unknown
      real(c_double) :: seconds_statistics = 0, seconds_strategy = 0, seconds_migration = 0
      real(c_double) :: seconds_warm_up = 0   !< extra time of the first steps after the LB step
      real(c_double) :: seconds_hidden = 0    !< longest time for which a rank computed meanwhile
   end type pylb_receipt

   ! ---- the structures of pylb.h -------------------------------------------------------------

   type, bind(c) :: c_cells
      integer(c_size_t) :: size
      integer(c_int64_t) :: n
      type(c_ptr) :: load, key, nbytes, memory, migratable, coords
      integer(c_int64_t) :: n_edges
      type(c_ptr) :: src, dst, edge_bytes
      integer(c_int64_t) :: n_components
      type(c_ptr) :: shared
   end type c_cells

   type, bind(c) :: c_receipt
      integer(c_int64_t) :: iteration
      integer(c_int32_t) :: rebalanced
      type(c_ptr) :: strategy, reason
      real(c_double) :: max, mean, before, predicted, cost, gain
      integer(c_int64_t) :: migrations
      real(c_double) :: seconds(5)
   end type c_receipt

   ! ---- the functions of pylb.h --------------------------------------------------------------

   abstract interface
      function text_function() bind(c)
         import :: c_ptr
         type(c_ptr) :: text_function
      end function text_function

      function handle_function(lb) bind(c)
         import :: c_int, c_ptr
         type(c_ptr), value :: lb
         integer(c_int) :: handle_function
      end function handle_function

      function open_function(lb) bind(c)
         import :: c_int, c_ptr
         type(c_ptr), intent(inout) :: lb
         integer(c_int) :: open_function
      end function open_function

      function seconds_function(lb, seconds) bind(c)
         import :: c_double, c_int, c_ptr
         type(c_ptr), value :: lb
         real(c_double), value :: seconds
         integer(c_int) :: seconds_function
      end function seconds_function

      function clock_function(lb) bind(c)
         import :: c_double, c_ptr
         type(c_ptr), value :: lb
         real(c_double) :: clock_function
      end function clock_function

      function share_function(lb, n, bytes_in, in, bytes_out, out, fn, user) bind(c)
         import :: c_funptr, c_int, c_int64_t, c_ptr
         type(c_ptr), value :: lb, in, out, user
         integer(c_int64_t), value :: n, bytes_in, bytes_out
         type(c_funptr), value :: fn
         integer(c_int) :: share_function
      end function share_function

      function plan_function(plan) bind(c)
         import :: c_int64_t, c_ptr
         type(c_ptr), value :: plan
         integer(c_int64_t) :: plan_function
      end function plan_function

      function migrate_function(plan, from, bytes, to) bind(c)
         import :: c_int, c_ptr, c_size_t
         type(c_ptr), value :: plan, from, to
         integer(c_size_t), value :: bytes
         integer(c_int) :: migrate_function
      end function migrate_function

      function sized_function(plan, from, offset, bytes, to, new_offset) bind(c)
         import :: c_int, c_int64_t, c_ptr, c_size_t
         type(c_ptr), value :: plan, from, to
         integer(c_int64_t), intent(in) :: offset(*), new_offset(*)
         integer(c_size_t), value :: bytes
         integer(c_int) :: sized_function
      end function sized_function
   end interface

   procedure(text_function), bind(c, name="pylb_error") :: c_error
   procedure(text_function), bind(c, name="pylb_version") :: c_version
   procedure(open_function), bind(c, name="pylb_advisor_create") :: c_create
   procedure(open_function), bind(c, name="pylb_advisor_close") :: c_close
   procedure(handle_function), bind(c, name="pylb_start") :: c_start
   procedure(handle_function), bind(c, name="pylb_stop") :: c_stop
   procedure(handle_function), bind(c, name="pylb_rebalance_begin") :: c_begin
   procedure(handle_function), bind(c, name="pylb_rebalance_end") :: c_end
   procedure(seconds_function), bind(c, name="pylb_work") :: c_work
   procedure(share_function), bind(c, name="pylb_share") :: c_share
   procedure(seconds_function), bind(c, name="pylb_rebalanced") :: c_rebalanced
   procedure(clock_function), bind(c, name="pylb_seconds") :: c_seconds
   procedure(plan_function), bind(c, name="pylb_plan_n") :: c_plan_n
   procedure(plan_function), bind(c, name="pylb_plan_migrations") :: c_plan_migrations
   procedure(migrate_function), bind(c, name="pylb_plan_migrate") :: c_migrate
   procedure(migrate_function), bind(c, name="pylb_plan_migrate_begin") :: c_migrate_begin
   procedure(sized_function), bind(c, name="pylb_plan_migrate_sized") :: c_migrate_sized
   procedure(sized_function), bind(c, name="pylb_plan_migrate_sized_begin") :: c_sized_begin
   procedure(handle_function), bind(c, name="pylb_plan_migrate_end") :: c_migrate_end

   interface
      function c_strlen(text) bind(c, name="strlen")
         import :: c_ptr, c_size_t
         type(c_ptr), value :: text
         integer(c_size_t) :: c_strlen
      end function c_strlen

      function c_create_fortran(comm, lb) bind(c, name="pylb_advisor_create_fortran")
         import :: c_int, c_ptr
         integer(c_int), value :: comm
         type(c_ptr), intent(inout) :: lb
         integer(c_int) :: c_create_fortran
      end function c_create_fortran

      function c_set(lb, option, val) bind(c, name="pylb_advisor_set")
         import :: c_char, c_int, c_ptr
         type(c_ptr), value :: lb
         character(kind=c_char), intent(in) :: option(*), val(*)
         integer(c_int) :: c_set
      end function c_set

      function c_rank(lb, rank, n_ranks) bind(c, name="pylb_advisor_rank")
         import :: c_int, c_ptr
         type(c_ptr), value :: lb
         integer(c_int), intent(out) :: rank, n_ranks
         integer(c_int) :: c_rank
      end function c_rank

      function c_advise(lb, rebalance) bind(c, name="pylb_advise")
         import :: c_int, c_ptr
         type(c_ptr), value :: lb
         integer(c_int), intent(inout) :: rebalance
         integer(c_int) :: c_advise
      end function c_advise

      function c_advise_cells(lb, cells, plan) bind(c, name="pylb_advise_cells")
         import :: c_cells, c_int, c_ptr
         type(c_ptr), value :: lb
         type(c_cells), intent(in) :: cells
         type(c_ptr), intent(inout) :: plan
         integer(c_int) :: c_advise_cells
      end function c_advise_cells

      subroutine c_cells_init(cells) bind(c, name="pylb_cells_init")
         import :: c_cells
         type(c_cells), intent(out) :: cells
      end subroutine c_cells_init

      function c_counts(lb, decisions, lb_steps) bind(c, name="pylb_advisor_counts")
         import :: c_int, c_int64_t, c_ptr
         type(c_ptr), value :: lb
         integer(c_int64_t), intent(out) :: decisions, lb_steps
         integer(c_int) :: c_counts
      end function c_counts

      function c_receipt_of(lb, i, receipt) bind(c, name="pylb_advisor_receipt")
         import :: c_int, c_int64_t, c_ptr, c_receipt
         type(c_ptr), value :: lb
         integer(c_int64_t), value :: i
         type(c_receipt), intent(inout) :: receipt
         integer(c_int) :: c_receipt_of
      end function c_receipt_of

      function c_plan_rank(plan) bind(c, name="pylb_plan_rank")
         import :: c_ptr
         type(c_ptr), value :: plan
         type(c_ptr) :: c_plan_rank
      end function c_plan_rank

      function c_plan_counts(plan, send, receive) bind(c, name="pylb_plan_counts")
         import :: c_int, c_int64_t, c_ptr
         type(c_ptr), value :: plan
         integer(c_int64_t), intent(out) :: send(*), receive(*)
         integer(c_int) :: c_plan_counts
      end function c_plan_counts

      function c_offsets(plan, offset, new_offset) bind(c, name="pylb_plan_offsets")
         import :: c_int, c_int64_t, c_ptr
         type(c_ptr), value :: plan
         integer(c_int64_t), intent(in), optional :: offset(*)
         integer(c_int64_t), intent(out), optional :: new_offset(*)
         integer(c_int) :: c_offsets
      end function c_offsets

      function c_inherit(n, load, d, n_pairs, parent, child, split, n_new, new_load) &
         bind(c, name="pylb_inherit")
         import :: c_double, c_int, c_int64_t
         integer(c_int64_t), value :: n, d, n_pairs, n_new
         real(c_double), intent(in) :: load(*)
         integer(c_int64_t), intent(in) :: parent(*), child(*)
         integer(c_int), value :: split
         real(c_double), intent(inout) :: new_load(*)
         integer(c_int) :: c_inherit
      end function c_inherit
   end interface

   !> Where the items of each cell begin, before and after a migration.  n: number of items after
   !! the migration.  sized: whether cells may have different numbers of items (else: one each).
   type :: offsets_t
      logical :: sized
      integer(c_int64_t) :: n
      integer(c_int64_t), allocatable :: old(:), new(:)
   end type offsets_t

   integer(c_int64_t), target, save :: nothing(1) = 0 ! its address stands for an empty array
   character(*), parameter :: mismatch = &
      "migrate: the array does not have one item, or count(i) items, for each cell of the plan"
   character(:), allocatable, save :: own_message ! message of an error found in this module

contains

   ! ---- errors -------------------------------------------------------------------------------

   !> The message of the most recent call that failed.
   function pylb_error() result(text)
      character(:), allocatable :: text
      text = text_of(c_error())
      if (allocated(own_message)) text = own_message
   end function pylb_error

   !> The version of the library that is linked.
   function pylb_version() result(text)
      character(:), allocatable :: text
      text = text_of(c_version())
   end function pylb_version

   function text_of(address) result(text)
      type(c_ptr), intent(in) :: address
      character(:), allocatable :: text
      character(kind=c_char), pointer :: letters(:)
      integer :: i
      text = ""
      if (.not. c_associated(address)) return
      call c_f_pointer(address, letters, [c_strlen(address)])
      text = repeat(" ", size(letters))
      do i = 1, size(letters)
         text(i:i) = letters(i)
      end do
   end function text_of

   subroutine finish(code, ierr)
      integer(c_int), intent(in) :: code
      integer, intent(out), optional :: ierr
      if (code /= pylb_ok .and. allocated(own_message)) deallocate (own_message)
      call report(code, ierr)
   end subroutine finish

   !> Report an error that was found in this module.
   subroutine fail(text, ierr)
      character(*), intent(in) :: text
      integer, intent(out), optional :: ierr
      own_message = text
      call report(pylb_err_value, ierr)
   end subroutine fail

   subroutine report(code, ierr)
      integer(c_int), intent(in) :: code
      integer, intent(out), optional :: ierr
      if (present(ierr)) then
         ierr = code
      else if (code /= pylb_ok) then
         write (error_unit, "(2a)") "pylb: ", pylb_error()
         error stop 1
      end if
   end subroutine report

   ! ---- advisor ------------------------------------------------------------------------------

   !> Make an advisor for the ranks of `comm`, a communicator given as an integer or as the MPI_VAL
   !! of a type(MPI_Comm).  Without `comm`, for a program of one rank.
   subroutine create(self, comm, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(in), optional :: comm
      integer, intent(out), optional :: ierr
      if (present(comm)) then
         call finish(c_create_fortran(int(comm, c_int), self%handle), ierr)
      else
         call finish(c_create(self%handle), ierr)
      end if
   end subroutine create

   !> Set an option before the first step, e.g. call lb%set("lag", "2").
   subroutine set(self, option, val, ierr)
      class(pylb_advisor), intent(inout) :: self
      character(*), intent(in) :: option, val
      integer, intent(out), optional :: ierr
      call finish(c_set(self%handle, trim(option)//c_null_char, trim(val)//c_null_char), ierr)
   end subroutine set

   subroutine close_advisor(self, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(out), optional :: ierr
      call finish(c_close(self%handle), ierr)
   end subroutine close_advisor

   subroutine rank_of(self, rank, n_ranks, ierr)
      class(pylb_advisor), intent(in) :: self
      integer, intent(out) :: rank, n_ranks
      integer, intent(out), optional :: ierr
      call finish(c_rank(self%handle, rank, n_ranks), ierr)
   end subroutine rank_of

   subroutine start(self, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(out), optional :: ierr
      call finish(c_start(self%handle), ierr)
   end subroutine start

   subroutine stop_work(self, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(out), optional :: ierr
      call finish(c_stop(self%handle), ierr)
   end subroutine stop_work

   subroutine work(self, seconds, ierr)
      class(pylb_advisor), intent(inout) :: self
      real(c_double), intent(in) :: seconds
      integer, intent(out), optional :: ierr
      call finish(c_work(self%handle, seconds), ierr)
   end subroutine work

   !> The seconds of the clock, to measure cells; NaN if the advisor is not open.
   function seconds_of(self) result(seconds)
      class(pylb_advisor), intent(in) :: self
      real(c_double) :: seconds
      seconds = c_seconds(self%handle)
   end function seconds_of

   !> Compute n rows; other ranks compute some of them where that saves time.  fn: c_funloc of a
   !> function like pylb_rows_fn in pylb.h; in, out: c_loc of the first row.
   subroutine share(self, n, bytes_in, in, bytes_out, out, fn, user, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer(c_int64_t), intent(in) :: n, bytes_in, bytes_out
      type(c_ptr), intent(in) :: in, out
      type(c_funptr), intent(in) :: fn
      type(c_ptr), intent(in), optional :: user
      integer, intent(out), optional :: ierr
      type(c_ptr) :: extra
      extra = c_null_ptr
      if (present(user)) extra = user
      call finish(c_share(self%handle, n, bytes_in, in, bytes_out, out, fn, extra), ierr)
   end subroutine share

   !> End a step, and get whether to rebalance now.
   subroutine advise_when(self, rebalance, ierr)
      class(pylb_advisor), intent(inout) :: self
      logical, intent(out) :: rebalance
      integer, intent(out), optional :: ierr
      integer(c_int) :: answer
      answer = 0
      call finish(c_advise(self%handle, answer), ierr)
      rebalance = answer /= 0
   end subroutine advise_when

   !> End a step, and get whether to rebalance now, and where each cell goes.  `coords` is (3, n).
   !! n_components: number of loads of each cell, one for each phase of the step; `load` has all
   !! loads of cell 1, then those of cell 2, ...  `shared` is (3, n): see pylb_cells in pylb.h.
   subroutine advise_where(self, load, plan, key, nbytes, memory, migratable, coords, src, dst, &
                           edge_bytes, ierr, n_components, shared)
      class(pylb_advisor), intent(inout) :: self
      real(c_double), intent(in), contiguous, target :: load(:)
      type(pylb_plan), intent(inout) :: plan
      integer(c_int64_t), intent(in), contiguous, target, optional :: key(:), nbytes(:), memory(:)
      logical, intent(in), optional :: migratable(:)
      real(c_double), intent(in), contiguous, target, optional :: coords(:, :)
      integer(c_int64_t), intent(in), contiguous, target, optional :: src(:), dst(:)
      real(c_double), intent(in), contiguous, target, optional :: edge_bytes(:)
      integer, intent(out), optional :: ierr
      integer, intent(in), optional :: n_components
      integer(c_int64_t), intent(in), contiguous, target, optional :: shared(:, :)
      integer(c_int8_t), allocatable, target :: moves(:)
      integer :: d
      type(c_cells) :: cells
      type(c_ptr) :: ranks
      integer(c_int) :: code, this_rank

      plan = pylb_plan()
      call c_cells_init(cells)
      d = 1
      if (present(n_components)) d = n_components
      cells%n_components = d
      d = max(d, 1)
      if (mod(size(load), d) /= 0 .or. &
          .not. fits(size(load)/d, key, nbytes, memory, migratable, coords, src, dst, edge_bytes, &
                    shared)) then
         cells%n = -1 ! the collective call refuses this, so that all ranks get an error
         code = c_advise_cells(self%handle, cells, plan%handle)
         call fail("advise: the arrays of cells, or of edges, differ in length or shape", ierr)
         return
      end if
      cells%n = size(load, kind=c_int64_t)/d
      cells%load = address(load)
      cells%key = address_of_longs(key)
      cells%nbytes = address_of_longs(nbytes)
      cells%memory = address_of_longs(memory)
      if (present(migratable)) then
         allocate (moves(max(size(migratable), 1)))
         moves(:size(migratable)) = merge(1_c_int8_t, 0_c_int8_t, migratable)
         cells%migratable = c_loc(moves(1))
      end if
      if (present(coords)) cells%coords = merge_address(size(coords), coords)
      if (present(shared)) then
         if (size(shared) > 0) cells%shared = c_loc(shared(1, 1))
      end if
      if (present(src)) cells%n_edges = size(src, kind=c_int64_t)
      cells%src = address_of_longs(src)
      cells%dst = address_of_longs(dst)
      cells%edge_bytes = address(edge_bytes)

      call finish(c_advise_cells(self%handle, cells, plan%handle), ierr)
      plan%rebalance = c_associated(plan%handle)
      if (plan%rebalance) then
         plan%n = c_plan_n(plan%handle)
         plan%migrations = c_plan_migrations(plan%handle)
         code = c_rank(self%handle, this_rank, plan%n_ranks)
         ranks = c_plan_rank(plan%handle)
         call c_f_pointer(ranks, plan%rank, [size(load)/d])
      end if
   end subroutine advise_where

   !> Compute new_load, the loads of the cells of a changed mesh.  Pair i says that cell parent(i)
   !! became, or became a part of, the new cell child(i).  split (default): see pylb_inherit in
   !! pylb.h; n_components: number of loads of each cell, in the same order as for advise.
   subroutine pylb_inherit(load, parent, child, new_load, split, n_components, ierr)
      real(c_double), intent(in) :: load(:)
      integer(c_int64_t), intent(in) :: parent(:), child(:)
      real(c_double), intent(inout), contiguous :: new_load(:)
      logical, intent(in), optional :: split
      integer, intent(in), optional :: n_components
      integer, intent(out), optional :: ierr
      integer(c_int64_t) :: d
      integer(c_int) :: divides
      if (size(parent) /= size(child)) then
         call fail("pylb_inherit: parent and child differ in length", ierr)
         return
      end if
      d = 1
      if (present(n_components)) d = max(n_components, 1)
      if (modulo(size(load, kind=c_int64_t), d) + modulo(size(new_load, kind=c_int64_t), d) > 0) then
         call fail("pylb_inherit: load and new_load need n_components numbers for each cell", ierr)
         return
      end if
      divides = 1
      if (present(split)) divides = merge(1_c_int, 0_c_int, split)
      call finish(c_inherit(size(load, kind=c_int64_t)/d, load, d, size(parent, kind=c_int64_t), &
                            parent - 1, child - 1, divides, size(new_load, kind=c_int64_t)/d, &
                            new_load), ierr)
   end subroutine pylb_inherit

   subroutine rebalance_begin(self, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(out), optional :: ierr
      call finish(c_begin(self%handle), ierr)
   end subroutine rebalance_begin

   subroutine rebalance_end(self, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(out), optional :: ierr
      call finish(c_end(self%handle), ierr)
   end subroutine rebalance_end

   subroutine rebalanced(self, seconds, ierr)
      class(pylb_advisor), intent(inout) :: self
      real(c_double), intent(in) :: seconds
      integer, intent(out), optional :: ierr
      call finish(c_rebalanced(self%handle, seconds), ierr)
   end subroutine rebalanced

   subroutine advisor_counts(self, decisions, lb_steps, ierr)
      class(pylb_advisor), intent(in) :: self
      integer(c_int64_t), intent(out) :: decisions, lb_steps
      integer, intent(out), optional :: ierr
      call finish(c_counts(self%handle, decisions, lb_steps), ierr)
   end subroutine advisor_counts

   !> Get the receipt of decision i = 1, 2, ...
   subroutine advisor_receipt(self, i, receipt, ierr)
      class(pylb_advisor), intent(inout) :: self
      integer, intent(in) :: i
      type(pylb_receipt), intent(out) :: receipt
      integer, intent(out), optional :: ierr
      type(c_receipt) :: c
      integer(c_int) :: code
      code = c_receipt_of(self%handle, int(i - 1, c_int64_t), c)
      call finish(code, ierr)
      if (code == pylb_ok) then
         receipt%iteration = c%iteration
         receipt%rebalanced = c%rebalanced /= 0
         receipt%strategy = text_of(c%strategy)
         receipt%reason = text_of(c%reason)
         receipt%max = c%max
         receipt%mean = c%mean
         receipt%before = c%before
         receipt%predicted = c%predicted
         receipt%cost = c%cost
         receipt%gain = c%gain
         receipt%migrations = c%migrations
         receipt%seconds_statistics = c%seconds(1)
         receipt%seconds_strategy = c%seconds(2)
         receipt%seconds_migration = c%seconds(3)
         receipt%seconds_warm_up = c%seconds(4)
         receipt%seconds_hidden = c%seconds(5)
      end if
   end subroutine advisor_receipt

   ! ---- arrays -------------------------------------------------------------------------------

   function address(x)
      real(c_double), intent(in), contiguous, target, optional :: x(:)
      type(c_ptr) :: address
      address = c_null_ptr
      if (present(x)) address = merge_address(size(x), x)
   end function address

   function merge_address(n, x) result(out)
      integer, intent(in) :: n
      real(c_double), intent(in), target :: x(*)
      type(c_ptr) :: out
      out = c_loc(nothing)
      if (n > 0) out = c_loc(x(1))
   end function merge_address

   function address_of_longs(x) result(out)
      integer(c_int64_t), intent(in), contiguous, target, optional :: x(:)
      type(c_ptr) :: out
      out = c_null_ptr
      if (.not. present(x)) return
      out = c_loc(nothing)
      if (size(x) > 0) out = c_loc(x(1))
   end function address_of_longs

   logical function fits(n, key, nbytes, memory, migratable, coords, src, dst, edge_bytes, shared)
      integer, intent(in) :: n
      integer(c_int64_t), intent(in), optional :: key(:), nbytes(:), memory(:), src(:), dst(:)
      logical, intent(in), optional :: migratable(:)
      real(c_double), intent(in), optional :: coords(:, :), edge_bytes(:)
      integer(c_int64_t), intent(in), optional :: shared(:, :)
      integer :: n_edges
      fits = .true.
      n_edges = 0
      if (present(key)) fits = fits .and. size(key) == n
      if (present(nbytes)) fits = fits .and. size(nbytes) == n
      if (present(memory)) fits = fits .and. size(memory) == n
      if (present(migratable)) fits = fits .and. size(migratable) == n
      if (present(coords)) fits = fits .and. size(coords, 1) == 3 .and. size(coords, 2) == n
      if (present(shared)) fits = fits .and. size(shared, 1) == 3 .and. size(shared, 2) == n
      if (present(src)) n_edges = size(src)
      if (present(dst)) fits = fits .and. size(dst) == n_edges
      if (present(edge_bytes)) fits = fits .and. size(edge_bytes) == n_edges
   end function fits

   ! ---- plan ---------------------------------------------------------------------------------

   !> Count the cells that this rank sends to each rank, and gets from each: send(i), receive(i)
   !! for rank i - 1.
   subroutine plan_counts(self, send, receive, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int64_t), intent(out) :: send(:), receive(:)
      integer, intent(out), optional :: ierr
      if (min(size(send), size(receive)) < self%n_ranks) then
         call fail("counts: expected arrays with an element for each rank", ierr)
         return
      end if
      call finish(c_plan_counts(self%handle, send, receive), ierr)
   end subroutine plan_counts

   !> Whether an array of n items has the size that the plan's cells need.
   logical function match(self, n, count)
      class(pylb_plan), intent(in) :: self
      integer, intent(in) :: n
      integer, intent(in), optional :: count(:)
      integer :: cells
      cells = 0
      if (associated(self%rank)) cells = size(self%rank)
      if (present(count)) then
         match = size(count) == cells .and. sum(count) == n
      else
         match = cells == n
      end if
   end function match

   !> Set the offsets `o` for an array of n items; return false after an error.
   logical function has_offsets(self, n, count, o, ierr)
      class(pylb_plan), intent(in) :: self
      integer, intent(in) :: n
      integer, intent(in), optional :: count(:)
      type(offsets_t), intent(out) :: o
      integer, intent(out), optional :: ierr
      integer(c_int) :: code
      integer :: i
      has_offsets = match(self, n, count)
      if (.not. has_offsets) then
         code = c_offsets(self%handle) ! refused without arrays, so that all ranks get an error
         call fail(mismatch, ierr)
         return
      end if
      o%n = self%n
      o%sized = present(count)
      if (.not. o%sized) return
      allocate (o%old(size(count) + 1), o%new(self%n + 1))
      o%old(1) = 0
      do i = 1, size(count)
         o%old(i + 1) = o%old(i) + count(i)
      end do
      code = c_offsets(self%handle, o%old, o%new)
      has_offsets = code == pylb_ok
      if (has_offsets) o%n = o%new(self%n + 1)
      if (.not. has_offsets) call finish(code, ierr)
   end function has_offsets

   !> Move items to their new ranks; if `begins` is true, only begin.  Return false after an error.
   logical function is_moved(self, o, from, bytes, to, ierr, begins)
      class(pylb_plan), intent(in) :: self
      type(offsets_t), intent(in) :: o
      type(c_ptr), intent(in) :: from, to
      integer, intent(in) :: bytes
      integer, intent(out), optional :: ierr
      logical, intent(in), optional :: begins
      procedure(migrate_function), pointer :: move
      procedure(sized_function), pointer :: move_sized
      integer(c_int) :: code
      move => c_migrate
      move_sized => c_migrate_sized
      if (present(begins)) then
         move => c_migrate_begin
         move_sized => c_sized_begin
      end if
      if (o%sized) then
         code = move_sized(self%handle, from, o%old, int(bytes, c_size_t), to, o%new)
      else
         code = move(self%handle, from, int(bytes, c_size_t), to)
      end if
      is_moved = code == pylb_ok
      call finish(code, ierr)
   end function is_moved

   subroutine migrate_int(self, x, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int32_t), intent(inout), allocatable, target :: x(:)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      integer(c_int32_t), allocatable, target :: y(:)
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x), count, o, ierr)) return
      allocate (y(o%n))
      if (is_moved(self, o, c_loc(x), 4, c_loc(y), ierr)) call move_alloc(y, x)
   end subroutine migrate_int

   subroutine migrate_int_2(self, x, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int32_t), intent(inout), allocatable, target :: x(:, :)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      integer(c_int32_t), allocatable, target :: y(:, :)
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x, 2), count, o, ierr)) return
      allocate (y(size(x, 1), o%n))
      if (is_moved(self, o, c_loc(x), 4*size(x, 1), c_loc(y), ierr)) call move_alloc(y, x)
   end subroutine migrate_int_2

   subroutine migrate_long(self, x, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int64_t), intent(inout), allocatable, target :: x(:)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      integer(c_int64_t), allocatable, target :: y(:)
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x), count, o, ierr)) return
      allocate (y(o%n))
      if (is_moved(self, o, c_loc(x), 8, c_loc(y), ierr)) call move_alloc(y, x)
   end subroutine migrate_long

   subroutine migrate_long_2(self, x, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int64_t), intent(inout), allocatable, target :: x(:, :)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      integer(c_int64_t), allocatable, target :: y(:, :)
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x, 2), count, o, ierr)) return
      allocate (y(size(x, 1), o%n))
      if (is_moved(self, o, c_loc(x), 8*size(x, 1), c_loc(y), ierr)) call move_alloc(y, x)
   end subroutine migrate_long_2

   subroutine migrate_real(self, x, count, ierr)
      class(pylb_plan), intent(in) :: self
      real(c_double), intent(inout), allocatable, target :: x(:)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      real(c_double), allocatable, target :: y(:)
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x), count, o, ierr)) return
      allocate (y(o%n))
      if (is_moved(self, o, c_loc(x), 8, c_loc(y), ierr)) call move_alloc(y, x)
   end subroutine migrate_real

   subroutine migrate_real_2(self, x, count, ierr)
      class(pylb_plan), intent(in) :: self
      real(c_double), intent(inout), allocatable, target :: x(:, :)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      real(c_double), allocatable, target :: y(:, :)
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x, 2), count, o, ierr)) return
      allocate (y(size(x, 1), o%n))
      if (is_moved(self, o, c_loc(x), 8*size(x, 1), c_loc(y), ierr)) call move_alloc(y, x)
   end subroutine migrate_real_2

   subroutine begin_int(self, x, y, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int32_t), intent(in), allocatable, target :: x(:)
      integer(c_int32_t), intent(out), allocatable, target :: y(:)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x), count, o, ierr)) return
      allocate (y(o%n))
      if (.not. is_moved(self, o, c_loc(x), 4, c_loc(y), ierr, .true.)) deallocate (y)
   end subroutine begin_int

   subroutine begin_int_2(self, x, y, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int32_t), intent(in), allocatable, target :: x(:, :)
      integer(c_int32_t), intent(out), allocatable, target :: y(:, :)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x, 2), count, o, ierr)) return
      allocate (y(size(x, 1), o%n))
      if (.not. is_moved(self, o, c_loc(x), 4*size(x, 1), c_loc(y), ierr, .true.)) deallocate (y)
   end subroutine begin_int_2

   subroutine begin_long(self, x, y, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int64_t), intent(in), allocatable, target :: x(:)
      integer(c_int64_t), intent(out), allocatable, target :: y(:)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x), count, o, ierr)) return
      allocate (y(o%n))
      if (.not. is_moved(self, o, c_loc(x), 8, c_loc(y), ierr, .true.)) deallocate (y)
   end subroutine begin_long

   subroutine begin_long_2(self, x, y, count, ierr)
      class(pylb_plan), intent(in) :: self
      integer(c_int64_t), intent(in), allocatable, target :: x(:, :)
      integer(c_int64_t), intent(out), allocatable, target :: y(:, :)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x, 2), count, o, ierr)) return
      allocate (y(size(x, 1), o%n))
      if (.not. is_moved(self, o, c_loc(x), 8*size(x, 1), c_loc(y), ierr, .true.)) deallocate (y)
   end subroutine begin_long_2

   subroutine begin_real(self, x, y, count, ierr)
      class(pylb_plan), intent(in) :: self
      real(c_double), intent(in), allocatable, target :: x(:)
      real(c_double), intent(out), allocatable, target :: y(:)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x), count, o, ierr)) return
      allocate (y(o%n))
      if (.not. is_moved(self, o, c_loc(x), 8, c_loc(y), ierr, .true.)) deallocate (y)
   end subroutine begin_real

   subroutine begin_real_2(self, x, y, count, ierr)
      class(pylb_plan), intent(in) :: self
      real(c_double), intent(in), allocatable, target :: x(:, :)
      real(c_double), intent(out), allocatable, target :: y(:, :)
      integer, intent(in), optional :: count(:)
      integer, intent(out), optional :: ierr
      type(offsets_t) :: o
      if (.not. has_offsets(self, size(x, 2), count, o, ierr)) return
      allocate (y(size(x, 1), o%n))
      if (.not. is_moved(self, o, c_loc(x), 8*size(x, 1), c_loc(y), ierr, .true.)) deallocate (y)
   end subroutine begin_real_2

   subroutine migrate_end(self, ierr)
      class(pylb_plan), intent(in) :: self
      integer, intent(out), optional :: ierr
      call finish(c_migrate_end(self%handle), ierr)
   end subroutine migrate_end

end module pylb
