/* Finds the critical path of recorded operations.  Also computes how long the path would be if a
 * procedure F took no time ("critical path zeroing"), or if F ran on the ranks that receive its
 * results (Eom and Hollingsworth 1998, "procedure LBF", figure 2).
 *
 * The program activity graph has the operations as nodes.  Its arcs are messages, and the
 * processor time of a rank from one operation to the next.  The longest path is the run time if
 * each rank had its own processor and waited only for messages, collectives and pauses.  Sends
 * complete at once.  Each operation is visited once, a receive after its send.  Times are integers
 * (ns), so the result does not depend on the order in which ranks are processed.
 *
 * Running F elsewhere moves it from the senders to the receivers.  Cs and Cr are the lengths of
 * the paths of sender and receiver:
 *     send:     the message carries (Cs, work, gain); then Cs = Cs - gain
 *     receive:  Cr = max(Cs - gain, Cr + work)
 * `work` is F's time since the last message (F in figure 2).  `gain` is the time by which removing
 * F shortens the sender's path.  In the paper both are the same, and every message that the sender
 * sends or receives sets them to zero (lines 10 and 16; line 26 adds the received rmtF, misprinted
 * as rmtFCP).  With `kept`, they are kept until a message goes to the rank to which F moves, so
 * that F can move between any two ranks.  A receive then only limits the gain, to Cr - Cs, or to 0
 * if Cs > Cr. */
#pragma once

#include <stdbool.h>

#include "whatif/pairing.h"

typedef enum plb_path_change {
    PLB_PATH_NOTHING,
    PLB_PATH_MOVED,  /* the procedure runs where its results are received */
    PLB_PATH_ZEROED, /* the procedure takes no time */
} plb_path_change_t;

/* A question: how long is the critical path after this change of the program? */
typedef struct plb_path_query {
    plb_path_change_t change;
    int32_t procedure;
    int32_t from, to; /* PLB_PATH_MOVED: F moves from rank `from` to rank `to`; -1: any rank */
    bool kept;        /* true: `work` and `gain` are kept until a message goes to rank `to`; false:
                         every message sets them to zero, as in the paper */
    double alpha, beta; /* seconds per message and per byte */
} plb_path_query_t;

/* From where the longest path comes to an operation. */
typedef struct plb_path_hop {
    int64_t op;   /* index of the operation from which the path comes, on rank `rank` */
    int32_t rank; /* the other rank from which the path comes; -1: the path comes from the previous
                     operation of the same rank, and `op` is not used */
    int32_t pad;
} plb_path_hop_t;

/* A segment ("stretch") of the critical path: the operations first ... last of one rank. */
typedef struct plb_stretch {
    int64_t first, last;
    int64_t ns; /* ns of processor time and pauses in the segment */
    int32_t rank, pad;
} plb_stretch_t;

/** Compute longest[n_ranks], the ns of the longest path to each rank's last operation.  If `hop`
 * is not NULL, hop[rank][i] tells how the path comes to operation i of the rank.  *stuck: number
 * of ranks that wait forever; their path ends where they wait. */
int plb_path_lengths(const plb_streams_t *streams, const plb_pairing_t *pairing,
                     const plb_path_query_t *query, int64_t *longest, plb_path_hop_t *const *hop,
                     int32_t *stuck, plb_err_t *err);

/** Find the longest path to the last operation of `rank`: *n segments in order of time.  The
 * caller frees *out with plb_free. */
int plb_path_walk(const plb_streams_t *streams, plb_path_hop_t *const *hop, int32_t rank,
                  plb_stretch_t **out, int64_t *n, plb_err_t *err);

/** Compute by_rank[n_ranks] and by_procedure[n_procedures + 1], the ns of the path on each rank
 * and in each procedure.  The time of a procedure does not include the procedures that it calls.
 * The last entry is the time outside of all procedures. */
int plb_path_shares(const plb_streams_t *streams, const plb_stretch_t *stretch, int64_t n,
                    int32_t n_procedures, int64_t *by_rank, int64_t *by_procedure, plb_err_t *err);
