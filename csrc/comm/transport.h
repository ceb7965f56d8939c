/* The communication of the C library: an interface, and its version for a single rank;
 * comm/comm.h has the version for MPI.  All calls except `leave` are collective.  A rank
 * that waits in a call lets other ranks use the processor core (base/base.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "comm/share.h"
#include "measure/measure.h"

/* Nonblocking reductions over all ranks: the interface through which AtSync (decide/consensus.h)
 * communicates.
 *
 * There are two kinds: reductions of statistics, and of maxima.  All ranks begin reductions of one
 * kind in the same order, and the results come in that order.  comm/comm.h implements the
 * interface with MPI, and plb_reduction_alone for a single rank. */

enum { PLB_MAXIMA = 3 }; /* how many maxima one reduction computes */

typedef struct plb_reduction {
    void *self;
    int rank, size;
    int depth; /* largest number of reductions of statistics that may be under way together */
    /** Contribute to the next reduction; `mine` is copied.  Does not wait. */
    int (*begin_stats)(void *self, const plb_stats_t *mine, plb_err_t *err);
    /** Make progress.  *done: whether `all` is the result of the oldest reduction under way. */
    int (*test_stats)(void *self, plb_stats_t *all, bool *done, plb_err_t *err);
    /** Begin and test a reduction of maxima; only one may be under way. */
    int (*begin_maximum)(void *self, const int64_t mine[PLB_MAXIMA], plb_err_t *err);
    int (*test_maximum)(void *self, int64_t all[PLB_MAXIMA], bool *done, plb_err_t *err);
} plb_reduction_t;

/** Make reductions for a single rank, whose contribution is the result. */
int plb_reduction_alone(plb_reduction_t *out, int depth, plb_err_t *err);
void plb_reduction_alone_free(plb_reduction_t *self);

typedef struct plb_transfer plb_exchange_t; /* an exchange under way */
typedef struct plb_transport plb_transport_t;
struct plb_transport {
    int rank, size;
    const plb_reduction_t *reduction; /* valid after a call of `reserve` */
    plb_patience_t patience;          /* what to do if a call waits long; the caller may set it */
    const int64_t *sizes; /* [size] bytes of each rank; valid after a gather until the next call */

    /** Allocate memory for up to `depth` reductions under way.  If one rank fails, all ranks do.
     */
    int (*reserve)(plb_transport_t *self, int depth, plb_err_t *err);

    /** Gather n bytes of each rank on rank 0; n may differ between ranks.  *all: on rank 0, the
     * bytes in order of the ranks, which the caller frees by plb_free; on other ranks, NULL.  A
     * rank that has failed passes the code of its error as n (negative).  The other ranks then do
     * not wait, but return an error that names the failed rank. */
    int (*gather)(plb_transport_t *self, const void *mine, int64_t n, char **all, plb_err_t *err);

    /** Return `ret` if it is an error, else the lowest code of all ranks: if one fails, all do. */
    int (*agree)(plb_transport_t *self, int ret, plb_err_t *err);

    /** Announce that this rank makes no more calls except `free`.  Other ranks get an error in a
     * gather or exchange that waits for this rank, and in all later ones.  Does not wait. */
    int (*leave)(plb_transport_t *self, plb_err_t *err);

    /** Broadcast n bytes from rank 0; n is the same on all ranks. */
    int (*bcast)(plb_transport_t *self, void *data, int64_t n, plb_err_t *err);

    /** Begin to exchange items of `bytes` bytes each: items send[r] ... send[r + 1] - 1 of `from`
     * go to rank r; the items from rank r become items receive[r] ... receive[r + 1] - 1 of `to`.
     * What this rank sends to itself is not copied.  failed: PLB_OK, or an error of this rank;
     * then all ranks fail, and no item is sent.  *out: for end_exchange; until then, `from` and
     * `to` must not change.  Several exchanges may be under way. */
    int (*begin_exchange)(plb_transport_t *self, int failed, const char *from, const int64_t *send,
                          char *to, const int64_t *receive, int64_t bytes, plb_exchange_t **out,
                          plb_err_t *err);

    /** Wait until an exchange is complete on this rank, and free it. */
    int (*end_exchange)(plb_transport_t *self, plb_exchange_t *exchange, plb_err_t *err);

    /** Compute rows, which ranks lend each other (comm/share.h).  NULL: there is only one rank. */
    int (*share)(plb_transport_t *self, const plb_shared_rows_t *rows,
                 plb_share_figures_t *figures, plb_err_t *err);

    /** Called while this rank waits elsewhere: ranks that wait for it in `share` get an error.
     * NULL: no rank can wait there.  Not collective. */
    void (*look)(plb_transport_t *self);

    /** Free all memory, including `self`. */
    void (*free)(plb_transport_t *self);
};

/** Make the transport for a single rank.  The caller owns it and frees it by (*out)->free. */
int plb_transport_alone(plb_transport_t **out, plb_err_t *err);

/* The order in which items are sent to ranks, and copies of items to and from this order. */

typedef struct plb_route {
    int32_t n_peers;
    int32_t *rank;  /* [n_peers] ranks that get items, ascending */
    int64_t *start; /* [n_peers + 1] items start[i] ... start[i+1]-1 of the order go to rank[i] */
    int32_t *order; /* [start[n_peers]] item indices, stably sorted by rank; NULL: 0, 1, 2, ... */
} plb_route_t;

/** Find the route of n items to the ranks dest[n].  `self` owns its arrays.  Time: O(n + n_ranks).
 * PLB_ERR_RANGE: a destination is not a rank, or n >= 2^31. */
int plb_route_init(plb_route_t *self, const int32_t *dest, int64_t n, int32_t n_ranks,
                   plb_err_t *err);
void plb_route_free(plb_route_t *self);

/** Set to[i] = from[index[i]], for n items of `bytes` bytes; plb_scatter: to[index[i]] = from[i].
 * offset (NULL: none): item i of the array that `index` refers to has the elements offset[i] ...
 * offset[i+1]-1, of `bytes` bytes each. */
void plb_gather(const char *from, const int64_t *offset, const int32_t *index, int64_t n,
                int64_t bytes, char *to);
void plb_scatter(const char *from, const int64_t *offset, const int32_t *index, int64_t n,
                 int64_t bytes, char *to);
