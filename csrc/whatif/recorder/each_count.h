/* The file CALLS for functions that count in int, and for MPI 4's that count in MPI_Count: COUNT
 * and DISPLACEMENT are the types, CALL(name) is the function's name. */
#define COUNT int
#define DISPLACEMENT int
#define CALL(name) name
#include CALLS

#if MPI_VERSION >= 4
#undef COUNT
#undef DISPLACEMENT
#undef CALL
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define CALL(name) name##_c
#include CALLS
#endif
