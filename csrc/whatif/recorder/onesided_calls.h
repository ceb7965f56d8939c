/* Windows, and accesses to them, whose items are counted (each_count.h). */

#define MAKES(name, params, args)                                                                 \
    PLB_EXPORT int CALL(MPI_Win_##name) params                                                    \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_Win_##name) args, plb_window_made(comm, *win));                        \
    }
MAKES(create,
      (void *base, MPI_Aint size, DISPLACEMENT unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
      (base, size, unit, info, comm, win))
MAKES(allocate,
      (MPI_Aint size, DISPLACEMENT unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
      (size, unit, info, comm, base, win))
MAKES(allocate_shared,
      (MPI_Aint size, DISPLACEMENT unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
      (size, unit, info, comm, base, win))

#define TO_TARGET int target, MPI_Aint displacement, COUNT target_count, MPI_Datatype target_type
#define TO_TARGET_ARGS target, displacement, target_count, target_type
#define ACCESS(name, rname, params, args)                                                         \
    PLB_EXPORT int CALL(MPI_##name)(LIST params, MPI_Win win)                                     \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##name)(LIST args, win),                                               \
                 plb_accessed(win, target, plb_bytes(count, type)));                              \
    }                                                                                             \
    PLB_EXPORT int CALL(MPI_##rname)(LIST params, MPI_Win win, MPI_Request * request)             \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##rname)(LIST args, win, request),                                     \
                 plb_accessed(win, target, plb_bytes(count, type)));                              \
    }
#define LIST(...) __VA_ARGS__
ACCESS(Put, Rput, (const void *origin, COUNT count, MPI_Datatype type, TO_TARGET),
       (origin, count, type, TO_TARGET_ARGS))
ACCESS(Get, Rget, (void *origin, COUNT count, MPI_Datatype type, TO_TARGET),
       (origin, count, type, TO_TARGET_ARGS))
ACCESS(Accumulate, Raccumulate,
       (const void *origin, COUNT count, MPI_Datatype type, TO_TARGET, MPI_Op op),
       (origin, count, type, TO_TARGET_ARGS, op))
ACCESS(Get_accumulate, Rget_accumulate,
       (const void *origin, COUNT count, MPI_Datatype type, void *result, COUNT result_count,
        MPI_Datatype result_type, TO_TARGET, MPI_Op op),
       (origin, count, type, result, result_count, result_type, TO_TARGET_ARGS, op))
