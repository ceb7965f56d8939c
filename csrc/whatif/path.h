/* The critical path of recorded operations, and its length if a procedure ran on the other side
 * of its messages (Eom and Hollingsworth 1998, "procedure LBF", figure 2) or took no time
 * ("critical path zeroing").
 *
 * The program activity graph has the operations as nodes; its arcs are a rank's processor time
 * from one operation to the next, and messages.  The longest path is the run's time as if each
 * rank had a processor of its own and did not wait for anything but messages.  Sends are through
 * at once.  One pass in the order of the messages; times are whole ns, so that the result does not
 * depend on the order in which ranks are looked at.
 *
 * Moving F from the senders to the receivers, at each message:
 *     send:     (Cs, work, gain) go along; then longest -= gain
 *     receive:  longest = max(Cs - gain, Cr + work)
 * work is F's time since the last message (figure 2, F), gain what its removal takes off the
 * sender's path.  In the paper both are F, and every message of the sender, also one that it
 * received, sets them to zero (lines 10, 16; line 26 adds the received rmtF, there misprinted
 * rmtFCP).  With `kept`, they are kept until a message goes to where F moves to, and a receive
 * that the rank would have waited for anyhow takes only the waiting time off the gain: so F may
 * move between any two ranks.
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

typedef struct plb_path_ask {
    plb_path_change_t change;
    int32_t procedure;
    int32_t from, to; /* MOVED: only what `from` runs, only by messages to `to`; -1: all */
    bool kept;
    double alpha, beta; /* seconds of a message, and of each of its bytes */
} plb_path_ask_t;

/* From where the longest path comes into an operation. */
typedef struct plb_path_hop {
    int64_t op;
    int32_t rank; /* -1: from the rank's operation before */
    int32_t pad;
} plb_path_hop_t;

/* A stretch of the critical path: operations first ... last of a rank. */
typedef struct plb_stretch {
    int64_t first, last;
    int64_t ns; /* processor time and pauses */
    int32_t rank, pad;
} plb_stretch_t;

/** longest[n_ranks] ns of the path to each rank's last operation.  `hop` (or NULL): for each rank
 *  an array of its operations' hops.  *stuck: number of ranks that wait for ever; their length is
 *  that of what they did. */
int plb_path_lengths(const plb_streams_t *streams, const plb_pairing_t *pairing,
                     const plb_path_ask_t *ask, int64_t *longest, plb_path_hop_t *const *hop,
                     int32_t *stuck, plb_err_t *err);

/** The path into the last operation of `rank`, from its beginning on; *out is to be freed. */
int plb_path_walk(const plb_streams_t *streams, plb_path_hop_t *const *hop, int32_t rank,
                  plb_stretch_t **out, int64_t *n, plb_err_t *err);

/** by_rank[n_ranks] and by_procedure[n_procedures + 1] ns of the path; a procedure's own time
 *  without those that it calls, the last entry is what belongs to none. */
int plb_path_shares(const plb_streams_t *streams, const plb_stretch_t *stretch, int64_t n,
                    int32_t n_procedures, int64_t *by_rank, int64_t *by_procedure, plb_err_t *err);

#endif
