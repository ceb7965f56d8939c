/* Runs the agents of all ranks of a snapshot as virtual ranks in this process. */
#pragma once

#include "place/kit/agent.h"

/* The traffic of a placement in rounds: arrays [n_ranks] of the caller, all zero at first. */
typedef struct plb_traffic {
    int64_t rounds;
    int64_t *messages, *bytes; /* number of messages and bytes that each rank has sent */
    int64_t *held;             /* `held` of each rank's agent (agent.h) */
} plb_traffic_t;

/** Run the agents until the placement is known, and write the placement to out[n_objects].
 * `traffic` may be NULL. */
int plb_rounds_run(const plb_agent_type_t *type, const plb_snapshot_t *in, const plb_opts_t *opts,
                   int32_t *out, plb_traffic_t *traffic, plb_err_t *err);

/** The function `run` of every distributed strategy in PLB_STRATEGIES. */
int plb_strategy_in_rounds(const plb_strategy_t *self, const plb_snapshot_t *in,
                           const plb_opts_t *opts, int32_t *out, plb_err_t *err);
