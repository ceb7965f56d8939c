/* GossipLB and HierarchicalLB, with the agents of kit/gossip.c. */
#include "place/kit/gossip.h"
#include "place/kit/rounds.h"

static int start(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err)
{
    ((plb_gossip_t *)agent)->from_home = true;
    return plb_gossip_start(agent, opts, err);
}

static int start_by_node(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err)
{
    ((plb_gossip_t *)agent)->by_node = agent->share->n_neighbours > 0;
    return start(agent, opts, err);
}

static const plb_param_t params[] = {PLB_GOSSIP_PARAMS};

static const plb_agent_type_t flat = {
    sizeof(plb_gossip_t), start, plb_gossip_round, plb_gossip_known, plb_gossip_stop,
};
static const plb_agent_type_t by_node = {
    sizeof(plb_gossip_t), start_by_node, plb_gossip_round, plb_gossip_known, plb_gossip_stop,
};

const plb_strategy_t plb_strategy_gossip = {
    .name = "GossipLB",
    .help =
        "distributed: underloaded ranks tell random ranks what they can take, overloaded ranks "
        "give objects to underloaded ones",
    .source = "Lifflander et al., CLUSTER 2021 (vt's TemperedLB)",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = PLB_GOSSIP_N_PARAMS,
    .run = plb_strategy_in_rounds,
    .agent = &flat,
};

const plb_strategy_t plb_strategy_hierarchical = {
    .name = "HierarchicalLB",
    .help = "distributed: like GossipLB, first within each node, then among all ranks",
    .source = "Menon, future work; Lifflander et al., CLUSTER 2021",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY | PLB_LOOKS_NODES,
    .params = params,
    .n_params = PLB_GOSSIP_N_PARAMS,
    .run = plb_strategy_in_rounds,
    .agent = &by_node,
};
