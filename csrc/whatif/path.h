/* The critical path of recorded operations; also its length if a procedure took no time ("critical
 * path zeroing"), or ran on the receivers of its messages (Eom and Hollingsworth 1998, "procedure
 * LBF", figure 2).
 *
 * The program activity graph has the operations as nodes; its arcs are a rank's processor time
 * from one operation to the next, and messages.  The longest path is the run time if each rank
 * had its own processor and waited only for messages.  Sends complete at once.  One pass in the
 * order of the messages is enough; times are integers (ns), so the result does not depend on
 * the order in which ranks are processed.
 *
 * To move F from the senders to the receivers, at each message:
 *     send:     the message carries (Cs, work, gain); then longest -= gain
 *     receive:  longest = max(Cs - gain, Cr + work)
 * work is F's time since the last message (F in figure 2); gain is the time by which removing F
 * shortens the sender's path.  In the paper both are F, and every message that the sender sends
 * or receives sets them to zero (lines 10, 16; line 26 adds the received rmtF, misprinted
 * rmtFCP).  With `kept`, they are kept until a message goes to the rank to which F moves.  If the
 * rank would have waited for a receive anyway, this reduces the gain only by the waiting time.  So
 * F can move between any two ranks.
 */
#ifndef PLB_WHATIF_PATH_H
#define PLB_WHATIF_PATH_H

#include <stdbool.h>

#include "whatif/pairing.h"

typedef enum plb_path_change {
    PLB_PATH_NOTHING,
    PLB_PATH_MOVED,  /* the procedure runs where its results are received */
    PLB_PATH_ZEROED, /* the procedure takes no time */
} plb_path_change_t;

/* A question: how long is the critical path after this change? */
typedef struct plb_path_query {
    plb_path_change_t change;
    int32_t procedure;
    int32_t from,
        to;    /* MOVED: only F on rank `from`, only by messages to rank `to`; -1: all ranks */
    bool kept; /* true: `work` and `gain` are kept until a message goes to the rank to which F
                  moves; false: every message sets them to zero, as in the paper */
    double alpha, beta; /* seconds per message and per byte */
} plb_path_query_t;

/* The last step of the longest path to an operation. */
typedef struct plb_path_hop {
    int64_t op;
    int32_t rank; /* -1: from the previous operation of the same rank */
    int32_t pad;
} plb_path_hop_t;

/* A stretch of the critical path: operations first ... last of a rank. */
typedef struct plb_stretch {
    int64_t first, last;
    int64_t ns; /* processor time and pauses */
    int32_t rank, pad;
} plb_stretch_t;

/** Compute longest[n_ranks], the ns of the path to each rank's last operation.  `hop` (or NULL):
 * for each rank an array of its operations' hops.  *stuck: number of ranks that wait forever;
 * the length of their path ends there. */
int plb_path_lengths(const plb_streams_t *streams, const plb_pairing_t *pairing,
                     const plb_path_query_t *query, int64_t *longest, plb_path_hop_t *const *hop,
                     int32_t *stuck, plb_err_t *err);

/** Find the path to the last operation of `rank`, from its beginning on; the caller frees *out. */
int plb_path_walk(const plb_streams_t *streams, plb_path_hop_t *const *hop, int32_t rank,
                  plb_stretch_t **out, int64_t *n, plb_err_t *err);

/** Compute by_rank[n_ranks] and by_procedure[n_procedures + 1], ns of the path.  The time of a
 * procedure does not include the procedures that it calls; the last entry is the time outside
 * of all procedures. */
int plb_path_shares(const plb_streams_t *streams, const plb_stretch_t *stretch, int64_t n,
                    int32_t n_procedures, int64_t *by_rank, int64_t *by_procedure, plb_err_t *err);

#endif
