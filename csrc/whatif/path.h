/* Finds the critical path of recorded operations.  Also computes how long the path would be if a
 * procedure F took no time ("critical path zeroing"), or if F ran on the ranks that receive its
 * results (Eom and Hollingsworth 1998, "procedure LBF", figure 2).
 *
 * The program activity graph has the operations as nodes.  Its arcs are messages, and the
 * processor time of a rank from one operation to the next.  The longest path is the run time if
 * each rank had its own processor and waited only for messages, collectives and pauses.  Sends
 * complete immediately.  Times are integers (ns), so the result does not depend on the order in
 * which ranks are processed.
 *
 * Running F elsewhere moves it from the senders to the receivers.  Cs and Cr are the lengths of
 * the paths of sender and receiver:
 *     send:     the message carries (Cs, work, gain); then Cs = Cs - gain
 *     receive:  Cr = max(Cs - gain, Cr + work)
 * `work` is F's time since the last message (F in figure 2).  `gain` is the time by which removing
 * F shortens the sender's path.  In the paper both are the same, and every message that the sender
 * sends or receives sets them to zero (lines 10 and 16; line 26 adds the received rmtF, misprinted
 * as rmtFCP).  The option `kept` keeps both until a message goes to the rank to which F moves, so
 * that F can move between any two ranks.  A receive then limits the gain to max(Cr - Cs, 0). */
#pragma once

#include <stdbool.h>

#include "whatif/pairing.h"

typedef enum plb_path_change {
    PLB_PATH_NOTHING,
    PLB_PATH_MOVED,  /* the procedure runs where its results are received */
    PLB_PATH_ZEROED, /* the procedure takes no time */
} plb_path_change_t;

/* A change of the program, for which the length of the path is computed. */
typedef struct plb_path_query {
    plb_path_change_t change;
    int32_t procedure;
    int32_t from, to;   /* PLB_PATH_MOVED: F moves from rank `from` to rank `to`; -1: any rank */
    bool kept;          /* true: keep `work` and `gain`, see above; false: as in the paper */
    double alpha, beta; /* seconds per message and per byte */
} plb_path_query_t;

/* From where the longest path comes to an operation: from operation `op` of rank `rank`. */
typedef struct plb_path_hop {
    int64_t op;
    int32_t rank; /* -1: from the previous operation of the same rank; `op` is not used */
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
